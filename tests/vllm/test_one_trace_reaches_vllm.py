"""The spans of the real vLLM and of a disaggregated encoder are parts of the gateway's."""

from pathlib import Path

import httpx
import pytest

from support import real_vllm
from support.eventually import eventually
from support.otlp_receiver import otlp_receiver
from support.tiny_llava import CHECKPOINT, samples

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_a_request_with_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """VLLM is given what the operator gives it; requests that are not recorded leave nothing."""
    command, traced = real_vllm._command, {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}
    with otlp_receiver() as receiver:
        flags = ["--otlp-traces-endpoint", f"{receiver.url}/v1/traces"]
        monkeypatch.setattr(real_vllm, "_command", lambda *words: [*command(*words), *flags])
        for name, value in (
            ("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
            ("OTEL_TRACES_SAMPLER", "parentbased_always_off"),
        ):
            monkeypatch.setenv(name, value)
        with real_vllm.real_vllm(CHECKPOINT, tmp_path, disaggregated=True) as served:
            body = {"model": "tiny", "messages": samples()[0].messages}
            url = f"{served.url}/v1/chat/completions"
            for headers in (traced, {}):
                assert httpx.post(url, json=body, headers=headers, timeout=300).status_code == 200
            # Each process sends its spans when it likes.
            sent = {"llm_request", "generate", "InferRequest", "encode"}
            eventually(lambda: sent <= {one.name for one in receiver.spans})
    names = {one.id: one.name for one in receiver.spans}
    parents = {one.name: names.get(one.parent) for one in receiver.spans}
    assert {one.trace for one in receiver.spans} == {"ab" * 16}
    assert (parents["llm_request"], parents["InferRequest"]) == ("generate", "encode")
