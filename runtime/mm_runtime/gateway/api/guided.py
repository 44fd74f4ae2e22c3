"""PURE: which forms of answers the engine behind a model keeps, and why it keeps no others."""

from dataclasses import dataclass

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_api.documents.trtllm_serve import TrtllmServe

JSON_SCHEMA, REGEX, EBNF = "json_schema", "regex", "ebnf_grammar"
"""As TensorRT-LLM names them."""

XGRAMMAR = "xgrammar"
"""The grammar library that both of TensorRT-LLM's servers have."""


@dataclass(frozen=True, slots=True)
class Guided:
    """What a server of TensorRT-LLM keeps answers to.

    Attributes:
        kinds: of forms, as TensorRT-LLM names them.
        missing: why there are no others, and what to do, as a sentence.
    """

    kinds: frozenset[str]
    missing: str = ""


def guided_of(manifest: EngineManifest, serving: ServingPlan) -> Guided | None:
    """Return what the server of an engine keeps answers to; None: the Reference engine."""
    if serving.trtllm_serve is not None:
        return _of_trtllm_serve(serving.trtllm_serve)
    build = manifest.plan.trtllm
    if build is None:
        return None
    if build.tokenizer_info is not None:
        return Guided(frozenset({JSON_SCHEMA, REGEX, EBNF}))
    return Guided(
        frozenset(),
        "The model's engine has no tokenizer's table, which TensorRT-LLM keeps answers to a form "
        "by. With spec.engine.guidedDecoding: On it is built again with one, or the plan says what "
        "is against it.",
    )


def _of_trtllm_serve(serve: TrtllmServe) -> Guided:
    backend = serve.options.get("guided_decoding_backend")
    if backend != XGRAMMAR:
        return Guided(
            frozenset(),
            f"trtllm-serve runs with guided_decoding_backend {backend or '(none)'}, not "
            f"{XGRAMMAR}: spec.engine.guidedDecoding must not be Off.",
        )
    if serve.takes_patterns:
        return Guided(frozenset({JSON_SCHEMA, REGEX, EBNF}))
    return Guided(
        frozenset({JSON_SCHEMA}),
        "trtllm-serve keeps answers to patterns and choices since TensorRT-LLM 1.2, and the "
        f"model's server is {serve.version}: use `response_format`, or a newer image.",
    )
