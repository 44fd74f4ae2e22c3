"""What the gateway sends is what the language model's version has inputs for."""

from dataclasses import replace
from pathlib import Path, PurePath

import pytest
from google.protobuf import text_format  # type: ignore[import-untyped]  # no stubs
from tritonclient.grpc import model_config_pb2

from mm_runtime.backends import BACKENDS
from mm_runtime.backends.triton_server.engine import TritonEngine
from mm_runtime.backends.triton_server.inputs import build_inputs
from mm_runtime.backends.trtllm.forms import TrtllmForms
from mm_runtime.gateway.backends.engine import EngineRequest, Form, Sampling, Servers
from mm_runtime.repository.configs.gateway_inputs import GUIDE, GUIDE_TYPE
from mm_runtime.repository.configs.scored_ensemble import NAME as SCORED
from mm_runtime.repository.configs.token_ensemble import NAME as ENSEMBLE
from mm_runtime.repository.layout import MODEL_NAMES, layout
from mm_runtime.serving.directory import EngineDirectory
from support.families.words import write_tokenizer
from support.model_configs import VERSIONS
from support.native_engines import native_engine

SAMPLED = EngineRequest(
    request_id="1",
    prompt="what ?",
    max_tokens=4,
    sampling=Sampling(
        temperature=0.7,
        top_p=0.9,
        presence_penalty=0.1,
        frequency_penalty=0.1,
        seed=7,
        top_k=5,
        repetition_penalty=1.1,
        min_tokens=2,
        ignores_end=True,
        bias=((3, 1.0),),
    ),
    likeliest=0,
)
"""With everything that acts there."""


@pytest.mark.parametrize(
    ("version", "named"),
    [
        pytest.param(VERSIONS[0], {"random_seed", "min_length"}, id="oldest"),
        pytest.param(VERSIONS[-1], {"seed", "min_tokens", GUIDE_TYPE, GUIDE}, id="newest"),
    ],
)
async def test_sampled_requests(tmp_path: Path, version: str, named: set[str]) -> None:
    manifest, serving = native_engine("llava", version=version)
    write_tokenizer(tmp_path / "processor")
    backend, directory = BACKENDS[serving.backend], EngineDirectory(tmp_path, manifest)
    engine = backend.open_engine(directory, serving, Servers("127.0.0.1:1"))
    assert isinstance(engine, TritonEngine)
    await engine.close()
    # Engines without the tokenizer's table get no form: the gateway has refused it.
    forms = backend.capabilities(manifest, serving).forms
    assert isinstance(forms, TrtllmForms)
    request = SAMPLED if forms.missing else replace(SAMPLED, form=Form("regex", "a"))
    sent = {one.name for one in build_inputs(request, newer_names=engine._newer_names)}
    paths = {name: PurePath("/x") for name in ("engine_dir", "serving_plan", "adapters")}
    files = layout(manifest, serving, sources=dict.fromkeys(MODEL_NAMES, ""), **paths)
    for ensemble in (ENSEMBLE, SCORED):
        config = text_format.Parse(
            files[f"{ensemble}/config.pbtxt"], model_config_pb2.ModelConfig()
        )
        assert sent - {one.name for one in config.input} == set()
    assert named <= sent
