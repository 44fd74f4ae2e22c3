"""PURE: values by which clients say that they do not use a parameter, the same on every path.

SDKs write defaults out, and parameters of other servers. A value that changes nothing here is
taken; any other of a parameter that acts nowhere is refused by name, never ignored.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BeforeValidator, ValidationInfo

_OPENAI: Mapping[str, tuple[object, ...]] = {
    "background": (False,),
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "include": ([],),
    "logprobs": (False,),
    "modalities": (["text"],),
    "n": (1,),
    "parallel_tool_calls": (True,),
    "presence_penalty": (0,),
    "prompt_cache_retention": ("in_memory", "in-memory"),
    "reasoning": ({}, {"effort": "none"}, {"enabled": False}),
    "reasoning_effort": ("none",),
    "response_format": ({"type": "text"},),
    "service_tier": ("auto", "default"),
    "stop": ("",),
    "store": (False,),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "truncation": ("disabled",),
    "verbosity": ("medium",),
}

OF_OTHER_SERVERS: Mapping[str, tuple[object, ...]] = {
    # vLLM, SGLang, TensorRT-LLM
    "add_generation_prompt": (True,),
    "allowed_token_ids": ([],),
    "bad_words": ([],),
    "chat_template_kwargs": ({},),
    "continue_final_message": (False,),
    "detokenize": (True,),
    "documents": ([],),
    "early_stopping": (False,),
    "enable_thinking": (False,),
    "ignore_eos": (False,),
    "include_reasoning": (False, True),
    "include_stop_str_in_output": (False,),
    "length_penalty": (1,),
    "logits_processors": ([],),
    "media_io_kwargs": ({},),
    "min_p": (0,),
    "mm_processor_kwargs": ({},),
    "no_repeat_ngram_size": (0,),
    "priority": (0,),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
    "separate_reasoning": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "stop_token_ids": ([],),
    "typical_p": (1,),
    "use_beam_search": (False,),
    "vllm_xargs": ({},),
    # Ollama, llama.cpp, Mistral, OpenRouter, Anthropic
    "cache_prompt": (True,),
    "dry_multiplier": (0,),
    "dynatemp_range": (0,),
    "format": ("",),
    "grammar": ("",),
    "mirostat": (0,),
    "models": ([],),
    "n_predict": (-1,),
    "num_predict": (-1,),
    "options": ({},),
    "plugins": ([],),
    "provider": ({},),
    "raw": (False,),
    "repeat_penalty": (1,),
    "safe_prompt": (False,),
    "tfs_z": (1,),
    "think": (False,),
    "thinking": ({"type": "disabled"},),
    "transforms": ([],),
    "xtc_probability": (0,),
}

NOT_USED: Mapping[str, tuple[object, ...]] = {**_OPENAI, **OF_OTHER_SERVERS}
"""Parameter -> its values besides null."""

OF_MESSAGES: Mapping[str, tuple[object, ...]] = {
    "additional_kwargs": ({},),
    "experimental_attachments": ([],),
    "images": ([],),
    "is_error": (False,),
    "prefix": (False,),
    "provider_specific_fields": ({},),
    "response_metadata": ({},),
}
"""The same of messages and calls, as clients of other servers send answers back."""

HINT = "cache_control"
"""An object that any part of a request may have, as Anthropic's API spells it: without effect."""

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
