"""Whether answers of TensorRT-LLM can be kept to a form: by version, family and beams (#forms)."""

from mm_api.documents.engine_manifest import TOKENIZER_FOLDER
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.trtllm_build import Command
from mm_api.documents.trtllm_serve import keeps_forms
from mm_api.families.checkpoint_files import Decoder
from mm_api.families.family import Family, Kind
from mm_api.trtllm_layout import ENGINES, GUIDED
from mm_operator.plan.engine.request import PlanRequest
from mm_operator.plan.engine.tables import table

SERVE_BACKEND = "xgrammar"
"""What both of TensorRT-LLM's backends have; llguidance is trtllm-serve's alone."""


def tokenizer_info(
    request: PlanRequest, facts: ModelFacts, family: Family, version: str
) -> Command | None:
    """Return the command that writes the tokenizer's table; None: the engine has no use for it."""
    if request.guided_decoding == "Off" or _cannot_keep_forms(request, family, version):
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


def _cannot_keep_forms(request: PlanRequest, family: Family, version: str) -> bool:
    # Of encoder-decoders it is not known, and TensorRT-LLM keeps no beams to a form.
    one_beam = family.kind is not Kind.ENCODER_DECODER and request.max_beam_width == 1
    return not keeps_forms(version) or not one_beam
