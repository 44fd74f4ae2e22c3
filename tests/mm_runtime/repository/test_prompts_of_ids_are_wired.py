"""The gateway's ensembles take a prompt as ids of tokens on either engine; clients' do not."""

from pathlib import PurePath

from mm_runtime.repository.configs import ensemble, preprocessing, scored_ensemble, token_ensemble
from mm_runtime.repository.configs.gateway_inputs import PROMPT_IDS
from mm_runtime.repository.model_config import ModelConfig
from mm_runtime.repository.values import RepositoryValues, values_of
from support.build_plans import serving_plan
from support.cases import cases
from support.documents import manifest
from support.native_engines import native_engine

PATHS = (PurePath("/engine"), PurePath("/serving.json"), PurePath("/adapters"))


def reference() -> RepositoryValues:
    engine = manifest()
    return values_of(engine, serving_plan(engine.fingerprint), *PATHS)


def native(family: str) -> RepositoryValues:
    return values_of(*native_engine(family, {}), *PATHS)


def taken(config: ModelConfig) -> tuple[bool, str | None]:
    """Return whether an ensemble has the input, and what its first step reads as the prompt."""
    first = config.ensemble_scheduling.step[0]
    return PROMPT_IDS in {one.name for one in config.input}, first.input_map.get("PROMPT_IDS")


@cases(
    "values",
    {
        "reference": reference(),
        "tensorrt": native("llava"),
        "tensorrt-encoder-decoder": native("t5"),
    },
)
def test_the_gateways_take_ids(values: RepositoryValues) -> None:
    """They go to the first step, which reads them as the prompt."""
    for module in (token_ensemble, scored_ensemble):
        assert taken(module.config(values)) == (True, PROMPT_IDS)
    assert "PROMPT_IDS" in {one.name for one in preprocessing.config(values).input}
    assert taken(ensemble.config(values)) == (False, None)


def test_audio_has_none() -> None:
    """Its prompt is made of its language and its task."""
    for module in (token_ensemble, scored_ensemble):
        assert taken(module.config(native("whisper"))) == (False, None)
    assert "PROMPT_IDS" not in {one.name for one in preprocessing.config(native("whisper")).input}
