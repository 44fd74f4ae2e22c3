"""Whether answers of TensorRT-LLM can be kept to a form: by version, family and beams (#forms)."""

from collections.abc import Iterator

from mm_api.documents.build_plan import EngineSpec
from mm_api.documents.engine_manifest import TOKENIZER_FOLDER
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.trtllm_build import Command
from mm_api.documents.trtllm_serve import FORMS_SINCE, keeps_forms
from mm_api.families.checkpoint_files import Decoder
from mm_api.families.family import Family, Kind
from mm_api.trtllm_layout import ENGINES, GUIDED
from mm_operator.errors import SpecError
from mm_operator.plan.engine.checks import Case, plan_error
from mm_operator.plan.engine.request import PlanRequest
from mm_operator.plan.engine.tables import table

SERVE_BACKEND = "xgrammar"
"""What both of TensorRT-LLM's backends have; llguidance is trtllm-serve's alone."""


def check_guided_engines(now: Case) -> Iterator[SpecError]:
    """Yield an error for engines that cannot do what the spec insists on."""
    why = _obstacle(now.request, now.family, now.version)
    if now.request.guided_decoding == "On" and why:
        yield plan_error(
            "engine.guidedDecoding",
            "GuidedDecodingUnavailable",
            f"{why}: set it to Auto, or use backend Reference",
        )


def check_guided_servers(now: Case) -> Iterator[SpecError]:
    """Yield an error for servers that cannot do what the spec insists on."""
    if now.request.guided_decoding == "On" and not serves_forms(now.request, now.version):
        yield plan_error(
            "engine.guidedDecoding",
            "GuidedDecodingUnavailable",
            f"{_too_old(now.version)}: set it to Auto, or use a newer image",
        )


def tokenizer_info(
    request: PlanRequest, facts: ModelFacts, family: Family, version: str
) -> Command | None:
    """Return the command that writes the tokenizer's table; None: the engine has no use for it."""
    if request.guided_decoding == "Off" or _obstacle(request, family, version):
        return None
    folder = family.trtllm.checkpoint_folder
    if facts.sentence_piece_model:
        folder = f"{ENGINES}/{TOKENIZER_FOLDER}"  # made before: what servers read
    elif family.checkpoint.decoder is Decoder.FOLDER:
        folder = f"{folder}/llm"
    argv = ["python3", table("tools")["guided"]["script"], "--model_dir", folder]
    return Command(argv=[*argv, "--output_dir", GUIDED])


def serves_forms(request: PlanRequest, version: str) -> bool:
    return request.guided_decoding != "Off" and keeps_forms(version)


def with_guided_decoding(
    engine: EngineSpec, request: PlanRequest, command: Command | None
) -> EngineSpec:
    """Return the engine: one that the spec insists on is another one than one without a table."""
    if request.guided_decoding == "On" and command is not None:
        return engine.model_copy(update={"guided_decoding": "On"})
    return engine


def _obstacle(request: PlanRequest, family: Family, version: str) -> str | None:
    """Return why an engine cannot keep answers to a form; None: it can."""
    if not keeps_forms(version):
        return _too_old(version)
    if family.kind is Kind.ENCODER_DECODER:
        return "answers of encoder-decoders are not known to be kept to a form by TensorRT-LLM"
    if request.max_beam_width > 1:
        return "TensorRT-LLM keeps no beams to a form, and maxBeamWidth is above 1"
    return None


def _too_old(version: str) -> str:
    return (
        f"answers are kept to a form since TensorRT-LLM {FORMS_SINCE}, and the image has {version}"
    )
