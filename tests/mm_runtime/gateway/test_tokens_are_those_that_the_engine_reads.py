"""The prompt is counted as the pod's preprocessing makes it of the same text or conversation."""

from typing import Any
from unittest.mock import patch

import httpx
import pytest

from mm_api.backends import REFERENCE
from mm_runtime.backends import BACKENDS
from mm_runtime.gateway.wiring import Gateway, build_gateway
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.prompts.questions import load_questions
from mm_runtime.serving.prompts.styles import style_of
from mm_runtime.serving.prompts.tokens import TextCodec
from support.build_plans import serving_plan
from support.families.images import CASES
from support.families.shared import shared_family
from support.gateways import client_of
from support.kept_decoders import KeptDecoders
from support.representatives import others_are_slow
from support.scripted_engine import ScriptedEngine

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
QUESTION = "what is in the image ?"

REPRESENTATIVES = ("llava-next", "qwen2-vl")
"""Of tokenizers with a begin token and without; of other openings are some of the slow ones."""

TEMPLATED = sorted(set(CASES) - {"llava"})
"""Its small checkpoint has no chat template; the toy gateway is of this family."""


def _gateway(directory: EngineDirectory, engine: ScriptedEngine) -> Gateway:
    with patch("mm_runtime.gateway.wiring.Decoders", KeptDecoders):
        return build_gateway(
            manifest=directory.manifest,
            serving=serving_plan(directory.manifest.fingerprint),
            engine_dir=directory.root,
            engine=engine,
            backend=BACKENDS[REFERENCE.name],
            auth_token_file=None,
        )


@pytest.mark.parametrize("family", others_are_slow(TEMPLATED, *REPRESENTATIVES))
async def test_families(family: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A conversation and a text, of each family's tokenizer and template."""
    directory = shared_family(tmp_path_factory, family).engine
    codec = TextCodec(directory.tokenizer)
    questions, engine = load_questions(directory, codec), ScriptedEngine()
    # A text for a tokenizer without a begin token has to have its family's opening.
    opening = "" if codec.begin_token else style_of(directory, codec).opening
    bodies: dict[str, dict[str, Any]] = {
        CHAT: {"messages": [{"role": "user", "content": QUESTION}]},
        TEXT: {"prompt": opening + QUESTION},
    }
    async with client_of(_gateway(directory, engine)) as client:
        for path, body in bodies.items():
            answer = await client.post(path, json={**body, "model": "tiny", "max_tokens": 1})
            assert answer.status_code == httpx.codes.OK, answer.text
            read = questions.write(engine.requests[-1].prompt, None, (), video=False).ids
            assert answer.json()["usage"]["prompt_tokens"] == len(read)
