"""What is kept of one client's requests is found by no other: keys are salts, as well."""

from pathlib import Path

import numpy as np
import pytest

from mm_runtime.backends.triton_server.engine import TritonEngine
from mm_runtime.backends.triton_server.inputs import build_inputs
from mm_runtime.gateway.admission.salts import salt_of
from mm_runtime.gateway.backends.engine import LIKELIEST, EngineRequest
from mm_runtime.gateway.errors import InvalidRequestError
from support.gateways import MODEL, client_of, toy_gateway
from support.scripted_engine import ScriptedEngine

QUESTION = {"model": MODEL, "messages": [{"role": "user", "content": "what is it ?"}]}


def test_clients_of_different_keys_share_nothing() -> None:
    """Not even with a salt that one has from the other; without keys a salt stays what it is."""
    salts = [salt_of(key, given) for key in ("ann", "bob") for given in ("", "secret")]
    assert len(set(salts)) == 4
    assert salt_of("ann", "secret") == salts[1]
    assert [salt_of("", ""), salt_of("", "secret")] == ["", "secret"]


async def test_a_key_is_a_salt(tmp_path: Path) -> None:
    """What reaches the engine differs by key, and is the same for each request of one."""
    tokens, engine = tmp_path / "token", ScriptedEngine()
    tokens.write_text("alice: sk-a\nalice: sk-a2\nbob: sk-b\n")
    gateway = toy_gateway(tmp_path / "engine", engine, auth_token_file=tokens)
    async with client_of(gateway) as client:
        for token in ("sk-a", "sk-a2", "sk-b"):
            answer = await client.post(
                "/v1/chat/completions",
                json=QUESTION,
                headers={"Authorization": f"Bearer {token}"},
            )
            assert answer.status_code == 200
    first, second, other = (one.cache_salt for one in engine.requests)
    assert first == second == salt_of("alice", "")
    assert other == salt_of("bob", "")


def request_of(*, images: int) -> EngineRequest:
    return EngineRequest(
        request_id="1",
        prompt="what is it ?",
        images=(np.zeros((2, 2, 3), np.uint8),) * images,
        cache_salt="ann",
        max_tokens=1,
        sampling=LIKELIEST,
    )


@pytest.mark.parametrize("images", [0, 1])
def test_salts_of_text_reach_the_server(images: int) -> None:
    """Its keys and values are kept, too."""
    found = {one.name for one in build_inputs(request_of(images=images), newer_names=False)}
    assert "cache_salt" in found


async def test_a_salt_is_refused_where_text_is_shared() -> None:
    """TensorRT-LLM's backend names blocks by tokens alone, unless an image is among them."""
    engine = TritonEngine("127.0.0.1:1", lambda _: "", salts_text=False)
    try:
        with pytest.raises(InvalidRequestError, match="blocks of text") as refused:
            async for _ in engine.generate(request_of(images=0)):
                pass
    finally:
        await engine.close()
    assert refused.value.param == "cache_salt"
