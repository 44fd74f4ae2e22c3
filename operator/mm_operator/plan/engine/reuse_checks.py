"""Where TensorRT-LLM may not keep blocks of earlier requests: codes, and ways out."""

from collections.abc import Iterator

from mm_api.documents.trtllm_serve import keeps_salts_apart
from mm_api.families.family import Kind
from mm_operator.errors import SpecError
from mm_operator.plan.engine.checks import Case, plan_error

_PATH = "engine.kvCache.reuse"


def check_reuse(now: Case) -> Iterator[SpecError]:
    """Yield errors for engines whose blocks would be found by the wrong prompts, or by none."""
    if not now.request.reuse:
        return
    family = now.family
    if family.kind is not Kind.PROMPT_TABLE:
        yield plan_error(
            _PATH,
            "ReuseOfCrossAttention",
            f"{family.name} reads by cross attention, and its blocks are named by tokens alone: "
            "set it to false",
        )
    elif family.layout.rotated:
        yield plan_error(
            _PATH,
            "ReuseOfRotations",
            f"positions of {family.name}'s images are rotated by what each request brings, which "
            "is no part of a block's name: set it to false, or use backend Reference",
        )
    if now.request.max_beam_width > 1:
        yield plan_error(
            _PATH,
            "ReuseWithBeams",
            "blocks of several beams are not kept: set it to false, or engine.maxBeamWidth to 1",
        )
    if now.request.keys:
        yield plan_error(
            _PATH,
            "ReuseSharedByKeys",
            "TensorRT-LLM's Triton backend names blocks of text by tokens alone, so that the "
            "holder of one key of gateway.authSecretRef could learn from delays what others send: "
            "set it to false, or use backend Reference",
        )


def check_reuse_of_images(now: Case) -> Iterator[SpecError]:
    """Yield errors for servers whose blocks would be found by the wrong prompts."""
    if not now.request.reuse:
        return
    if now.facts.vision is not None and now.request.max_images:
        yield plan_error(
            _PATH,
            "ReuseOfImages",
            "blocks of two images are taken for equal, or break the second request with one "
            "(NVIDIA/TensorRT-LLM#14125), and no version is known where they do not: set it to "
            "false, set engine.maxImagesPerRequest to 0, or use backend Reference",
        )
    elif now.request.keys and not keeps_salts_apart(now.version):
        yield plan_error(
            _PATH,
            "ReuseSharedByKeys",
            f"TensorRT-LLM {now.version} has no cache_salt (since 1.1), so that the holder of one "
            "key of gateway.authSecretRef could learn from delays what others send: set it to "
            "false, or use a newer image",
        )
