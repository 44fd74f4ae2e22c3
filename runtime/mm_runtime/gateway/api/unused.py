"""PURE: values by which clients say that they do not use a parameter, the same on every path.

SDKs write defaults out, and parameters of other servers. A value that changes nothing here is
taken; any other of a parameter that acts nowhere is refused by name, never ignored.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BeforeValidator, ValidationInfo


def _by_name(*rows: tuple[tuple[object, ...], str]) -> Mapping[str, tuple[object, ...]]:
    return {name: values for values, names in rows for name in names.split()}


_OPENAI = _by_name(
    ((False,), "background echo logprobs store"),
    ((1,), "best_of n"),
    ((0,), "frequency_penalty presence_penalty top_logprobs"),
    (("none", "auto"), "function_call tool_choice"),
    (([],), "functions include tools"),
    ((["text"],), "modalities"),
    ((True,), "parallel_tool_calls"),
    (("in_memory", "in-memory"), "prompt_cache_retention"),
    (({}, {"effort": "none"}, {"enabled": False}), "reasoning"),
    (("none",), "reasoning_effort"),
    (({"type": "text"},), "response_format"),
    (("auto", "default"), "service_tier"),
    (("",), "stop suffix"),
    (("disabled",), "truncation"),
    (("medium",), "verbosity"),
)

OF_OTHER_SERVERS = _by_name(
    ((True,), "add_generation_prompt cache_prompt detokenize skip_special_tokens"),
    ((True,), "spaces_between_special_tokens"),
    (([],), "allowed_token_ids bad_words documents logits_processors models plugins"),
    (([],), "stop_token_ids transforms"),
    (({},), "chat_template_kwargs media_io_kwargs mm_processor_kwargs options provider vllm_xargs"),
    ((False,), "continue_final_message early_stopping enable_thinking ignore_eos"),
    ((False,), "include_stop_str_in_output raw return_token_ids return_tokens_as_token_ids"),
    ((False,), "safe_prompt separate_reasoning think use_beam_search _debug_render_only"),
    ((False, True), "include_reasoning"),
    ((1,), "length_penalty repeat_penalty tfs_z typical_p"),
    ((0,), "dry_multiplier dynatemp_range min_p mirostat no_repeat_ngram_size priority"),
    ((0,), "xtc_probability"),
    (("",), "format grammar"),
    ((-1,), "n_predict num_predict"),
    (({"type": "disabled"},), "thinking"),
)
"""Those of vLLM, SGLang, TensorRT-LLM, Ollama, llama.cpp, Mistral, OpenRouter and Anthropic."""

NOT_USED: Mapping[str, tuple[object, ...]] = {**_OPENAI, **OF_OTHER_SERVERS}
"""Parameter -> its values besides null."""

OF_MESSAGES = _by_name(
    (({},), "additional_kwargs provider_specific_fields response_metadata"),
    (([],), "experimental_attachments images"),
    ((False,), "is_error prefix"),
)
"""The same of messages and calls, as clients of other servers send answers back."""

HINTS = frozenset({"cache_control", "prompt_cache_breakpoint", "extra_content"})
"""Objects that any part of a request may have, without effect: of caches, as Anthropic's API and
OpenAI's spell them, and of thoughts, as Gemini's does."""

KNOWN: Mapping[str, tuple[object, ...]] = {**OF_MESSAGES, **NOT_USED}

INSTEAD: Mapping[str, str] = {
    "guided_json": "send `response_format` of type `json_schema`",
    "guided_regex": "send it as `structured_outputs.regex`",
    "guided_choice": "send it as `structured_outputs.choice`",
    "guided_grammar": "send a JSON schema as `response_format`, or `structured_outputs.regex`",
    "structured_outputs.grammar": "send `json`, `regex` or `choice`",
    "structured_outputs.structural_tag": "send `json`, `regex` or `choice`; for calls `tools`",
    "response_format.schema": "send `response_format` of type `json_schema`",
    "extra_body": "send its fields beside the others, as SDKs do",
    "mm_processor_kwargs": "scale the image, or send `image_url.detail`",
    "echo": "put the prompt before the answer",
    "continue_final_message": "POST /v1/completions with the complete prompt",
    "prompt_logprobs": "tokens of prompts have no scores here; `logprobs` has those of the answer",
}
"""Parameters, most of them vLLM's, that are read nowhere -> what to send instead."""


def is_unused(value: object, values: tuple[object, ...]) -> bool:
    """Return whether a value is null or one of those that change nothing."""
    if isinstance(value, dict):
        value = {name: one for name, one in value.items() if one is not None}
    return value is None or any(
        isinstance(value, bool) is isinstance(one, bool) and value == one for one in values
    )


def _without_unused(value: Any, info: ValidationInfo) -> Any:
    return None if is_unused(value, KNOWN.get(info.field_name or "", ())) else value


UNUSED_IS_NULL = BeforeValidator(_without_unused)
"""For a field whose type has no such value."""
