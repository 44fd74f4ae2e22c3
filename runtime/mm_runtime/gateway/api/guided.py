"""PURE: which forms of answers the engine behind a model keeps, and why it keeps no others."""

from dataclasses import dataclass

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_api.documents.trtllm_serve import FORMS_SINCE, TrtllmServe, keeps_forms

JSON_SCHEMA, REGEX, EBNF = "json_schema", "regex", "ebnf_grammar"
"""As TensorRT-LLM names them."""

XGRAMMAR = "xgrammar"
"""The grammar library that both of TensorRT-LLM's servers have."""


@dataclass(frozen=True, slots=True)
class Guided:
    """Whether a server of TensorRT-LLM keeps answers to a form.

    Attributes:
        missing: why it does not, and what to do, as a sentence; empty: it does.
    """

    missing: str = ""


def guided_of(manifest: EngineManifest, serving: ServingPlan) -> Guided | None:
    """Return what the server of an engine keeps answers to; None: the Reference engine."""
    if serving.trtllm_serve is not None:
        return _of_trtllm_serve(serving.trtllm_serve)
    build = manifest.plan.trtllm
    if build is None:
        return None
    if build.tokenizer_info is not None:
        return Guided() if keeps_forms(build.version) else Guided(_since(build.version))
    return Guided(
        "The model's engine has no tokenizer's table, which TensorRT-LLM keeps answers to a form "
        "by. With spec.engine.guidedDecoding: On it is built again with one, or the plan says what "
        "is against it.",
    )


def _of_trtllm_serve(serve: TrtllmServe) -> Guided:
    if not keeps_forms(serve.version):
        return Guided(_since(serve.version))
    backend = serve.options.get("guided_decoding_backend")
    if backend != XGRAMMAR:
        return Guided(
            f"trtllm-serve runs with guided_decoding_backend {backend or '(none)'}, not "
            f"{XGRAMMAR}: spec.engine.guidedDecoding must not be Off.",
        )
    return Guided()


def _since(version: str) -> str:
    return (
        f"Answers are kept to a form since TensorRT-LLM {FORMS_SINCE}, and the model's server is "
        f"{version}: use a newer image."
    )
