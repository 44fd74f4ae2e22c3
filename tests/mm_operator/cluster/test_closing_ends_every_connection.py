"""A client that is closed leaves no socket, those of cancelled requests included."""

import asyncio
import gc
import ssl
import threading
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from mm_operator.cluster.client import Client, connect
from mm_operator.cluster.resources import POD
from support.certificates import signed_by_itself
from support.eventually import eventually_async


@asynccontextmanager
async def silent_api_server(folder: Path, requested: threading.Event) -> AsyncIterator[str]:
    certificate, key = signed_by_itself(folder, "api")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        requested.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(certificate)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(document))
    async with server:
        yield str(folder / "kubeconfig")


async def cancelled(kubeconfig: str, requested: threading.Event) -> None:
    client = Client(await connect(kubeconfig, None))
    request = asyncio.create_task(client.get(POD, "namespace", "name"))
    await eventually_async(requested.is_set)
    request.cancel()
    await asyncio.wait({request})
    await client.close()


def in_a_loop_of_its_own(kubeconfig: str, requested: threading.Event) -> None:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(cancelled(kubeconfig, requested))
    loop.close()


async def test_a_cancelled_request_leaves_no_socket(tmp_path: Path) -> None:
    """Its connection ends its TLS after the cancellation; `close` waits for that."""
    requested = threading.Event()
    gc.collect()
    with warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always", ResourceWarning)
        async with silent_api_server(tmp_path, requested) as kubeconfig:
            await asyncio.to_thread(in_a_loop_of_its_own, kubeconfig, requested)
        gc.collect()

    assert requested.is_set()
    assert [str(one.message) for one in left if one.category is ResourceWarning] == []
