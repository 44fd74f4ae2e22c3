"""http(s) URLs in Triton requests: fetched under the gateway's rules, by both models."""

import asyncio
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mm_runtime.images.fetch import FetchPolicy
from mm_runtime.serving.errors import QueueFullError
from mm_runtime.serving.preprocess.remote_images import (
    MAX_REQUESTS,
    Fetched,
    RemoteImages,
)
from support import public_host
from support.ensemble import Ensemble, EnsembleError
from support.eventually import eventually_async
from support.image_host import ImageHost, serve_images
from support.served import Served
from support.tiny_llava import IMAGES

pytestmark = pytest.mark.triton

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "request-errors.md"
QUESTION = "What is in the image?"
SECONDS = 60

FRIENDS = FetchPolicy(
    allowed_hosts=(), allow_private_networks=True, timeout_seconds=SECONDS, max_bytes=1 << 20
)


def test_fetched_and_sent_images_keep_their_order(
    served: Served, model: str, host: ImageHost
) -> None:
    """The image behind a URL is what the model sees; the second URL is the second image."""
    urls = [host.url("red-square.png"), host.url("big-green-triangle.png")]
    with Ensemble(served.grpc_url, model) as client:
        found = client.query("What is in the second image?", image_url_input=urls)
    assert "a green triangle" == found.text  # noqa: SIM300


def test_a_host_that_hangs_holds_up_no_other_request(served: Served, host: ImageHost) -> None:
    """Other requests are answered while an image does not come, and its own request is refused.

    The time for an image is short here: a machine that was busy elsewhere may need another try.
    """
    assert any(_is_passed_by(served, host) for _ in range(5))


def _is_passed_by(served: Served, host: ImageHost) -> bool:
    refused = threading.Event()

    def wait_for_the_image() -> None:
        with (
            Ensemble(served.grpc_url) as client,
            pytest.raises(EnsembleError, match="not fetched within 10 seconds"),
        ):
            client.query(QUESTION, image_url_input=host.url("hang"))
        refused.set()

    requested = host.requested.count("hang")
    waiting = threading.Thread(target=wait_for_the_image)
    with Ensemble(served.grpc_url) as client:
        waiting.start()
        asyncio.run(eventually_async(lambda: host.requested.count("hang") > requested))
        assert "i answer questions about shapes" == client.query("Hello!").text  # noqa: SIM300
        passed = not refused.is_set()
    assert refused.wait(SECONDS)
    waiting.join(SECONDS)
    return passed


def _fetch(images: RemoteImages, *urls: str) -> Fetched | Exception:
    found: queue.Queue[Fetched | Exception] = queue.Queue()
    images.fetch(urls, found.put)
    return found.get(timeout=SECONDS)


def test_one_url_is_fetched_once(host: ImageHost) -> None:
    """A request that names an image twice gets it once; the bytes are the file's."""
    images = RemoteImages(FRIENDS)
    url = host.url("red-square.png")
    found = _fetch(images, url, url)
    images.end()
    assert {url: (IMAGES / "red-square.png").read_bytes()} == found


def test_waiting_requests_have_a_bound(host: ImageHost) -> None:
    """Hosts that are slow cannot fill the memory: a request too many is sent away for a while."""
    found: queue.Queue[Fetched | Exception] = queue.Queue()
    with serve_images() as slow:
        images = RemoteImages(FRIENDS)
        for _ in range(MAX_REQUESTS):
            images.fetch([slow.url("late")], found.put)
        with pytest.raises(QueueFullError, match="wait for images from other hosts already"):
            images.fetch([host.url("red-square.png")], found.put)
        slow.release()
        ended = [found.get(timeout=SECONDS) for _ in range(MAX_REQUESTS)]
    assert {dict} == {type(one) for one in ended}
    # A place is free once the answer has been dealt with, a moment after this test has it.
    asyncio.run(eventually_async(lambda: _is_fetched(images, host.url("red-square.png"))))
    images.end()


def _is_fetched(images: RemoteImages, url: str) -> bool:
    try:
        return isinstance(_fetch(images, url), dict)
    except QueueFullError:
        return False


@pytest.mark.root
def test_a_redirect_to_a_private_address_is_refused() -> None:
    """Every hop is looked at, in a network namespace with a public host, which is fetched from."""
    ours = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    program = [sys.executable, public_host.__file__, "/photo.png", *public_host.REDIRECTS]
    command = ["unshare", *ours, "--net", *program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
    if "unshare failed" in done.stderr:
        pytest.skip(f"no network namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    image, *refused = done.stdout.splitlines()
    assert image == public_host.IMAGE.decode()
    reported = {
        path: words.partition("resolves to an address that is not public ")[2].partition(";")[0]
        for path, words in zip(public_host.REDIRECTS, refused, strict=True)
    }
    assert reported == {
        "/private": "(private)",
        "/metadata": "(link-local, where clouds keep their metadata service)",
        "/loopback": "(loopback)",
        "/mapped": "(private)",
    }
    assert refused[0] in PAGE.read_text()
