"""`engine.extraLlmApiOptions` has no schema: its size and its names are bounded all the same."""

from datetime import date
from typing import Any

import pytest
from pydantic import ValidationError

from mm_api.v1alpha1.engine import EngineSpec
from support.cases import cases


def spec_with(options: Any) -> EngineSpec:
    return EngineSpec.model_validate({"extraLlmApiOptions": options})


@cases(
    "options message",
    {
        "size": ({"a": "x" * 4096}, "longer than 4096 characters"),
        "objects": ({"a": {"b": {"c": {}}}}, "more than 3 levels"),
        "lists": ({"a": {"b": [[1]]}}, "more than 3 levels"),
        "dots": ({"kv_cache_config.dtype": "fp8"}, "write kv_cache_config"),
        "case": ({"a": {"B": 1}}, "has the key 'B'"),
        "in-a-list": ({"a": [{"": 1}]}, "has the key ''"),
        "number": ({"a": {1: 1}}, "has the key '1'"),
        "long": ({"a" * 65: 1}, "has the key 'aaaa"),
    },
)
def test_what_no_option_can_be_is_refused(options: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message) as caught:
        spec_with(options)
    assert caught.value.errors()[0]["loc"][0] == "extraLlmApiOptions"


def test_values_of_yaml_alone_are_left_to_the_plan() -> None:
    """A date is no reason to fail before the option can be named."""
    options = {"stream_interval": date(2026, 1, 1)}

    assert spec_with(options).extra_llm_api_options == options


def test_nesting_without_end_is_refused() -> None:
    """Anchors of YAML may contain themselves."""
    options: dict[str, Any] = {}
    options["a"] = options

    with pytest.raises(ValidationError, match="more than 3 levels"):
        spec_with(options)


def test_the_deepest_options_are_kept() -> None:
    """A list in a group; an absent field stays absent."""
    options = {"a": {"b": [1, 2]}, "c": None, "a" * 64: "x" * 3900}

    assert spec_with(options).extra_llm_api_options == options
    assert spec_with(None).extra_llm_api_options is None
