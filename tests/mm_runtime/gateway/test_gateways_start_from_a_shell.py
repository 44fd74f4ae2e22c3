"""`mm-runtime gateway` before an OpenAI server of any address: no pod, no supervisor, no GPU."""

from pathlib import Path

import httpx
import pytest

from mm_runtime.cli import parser
from support.gateways import toy_serving, write_processor
from support.model_configs import planned_on_pytorch
from support.ports import free_ports
from support.real_gateway import gateway_of
from support.recorded_server import recorded_server
from support.toy_qwen import FAMILY, SPECIAL, TEMPLATE, manifest
from support.trtllm_pods import VERSION

CHAT = {"messages": [{"role": "user", "content": "what is it ?"}], "max_tokens": 8}


def documents(folder: Path) -> tuple[str, ...]:
    """Write what a pod of backend PyTorch reads; its plan has a port where nothing listens."""
    write_processor(folder, TEMPLATE, SPECIAL)
    plan = planned_on_pytorch(FAMILY, VERSION).serve
    update = {"backend": "PyTorch", "trtllm_serve": plan}
    (folder / "manifest.json").write_text(manifest().to_json())
    (folder / "serving.json").write_text(toy_serving().model_copy(update=update).to_json())
    files = ("--manifest", folder / "manifest.json", "--serving", folder / "serving.json")
    return (*map(str, files), "--server-metrics", "")


def test_a_gateway_is_a_process_before_any_address(tmp_path: Path) -> None:
    """Ready by the server's health; its answer is the server's, as OpenAI's API has it."""
    (port,) = free_ports(1)
    with recorded_server(tmp_path) as server:
        where = ("--openai-server", f"http://{server.address}")
        with gateway_of((*documents(tmp_path), *where), port, tmp_path / "gateway.log") as url:
            model = httpx.get(f"{url}/v1/models", timeout=60).json()["data"][0]["id"]
            body = {"model": model, **CHAT}
            chat = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)
        prompt = server.prompts[-1]
    assert chat.status_code == httpx.codes.OK, chat.text
    assert chat.json()["choices"][0]["message"]["content"]
    assert "what is it ?" in prompt


@pytest.mark.parametrize("text", ["http://127.0.0.1:8000/", "127.0.0.1:8000"])
def test_addresses(text: str) -> None:
    found = parser().parse_args(_command(text))
    assert found.openai_server == "127.0.0.1:8000"


def test_a_pods_gateway_has_no_address() -> None:
    assert parser().parse_args(_command("x:1")[:-2]).openai_server is None


@pytest.mark.parametrize("text", ["https://127.0.0.1:8000", "http://host:8000/v1", "host"])
def test_other_addresses_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(_command(text))
    assert "expected http://HOST:PORT, without a path" in capsys.readouterr().err


def _command(address: str) -> list[str]:
    return ["gateway", "--manifest", "m", "--serving", "s", "--openai-server", address]
