"""Settings of TensorRT-LLM plugins that build an engine of wrong answers, or none at all.

The family's own settings stand in its recipe (upstream's guides, #encoders): one that is no dtype
is a rule of the family, and one that is a dtype is the engine's. They hold for `engine.plugins`
and for the same flags in `engine.extraBuildArgs`.
"""

from collections.abc import Iterator
from itertools import zip_longest

from mm_api.documents.model_plan import PlanError
from mm_operator.errors import SpecError
from mm_operator.plan.engine.dtypes import choose_dtype
from mm_operator.plan.engine.situation import Situation, plan_error

_DTYPES = frozenset({"float16", "bfloat16", "float32"})
_BY_DTYPE = "{dtype}"
_FUSED_ATTENTION = "context_fmha"


def plugin_problems(now: Situation) -> Iterator[PlanError]:
    """Yield an error for each setting against the family's rules or the engine's dtype."""
    if now.backend != "TensorRT" or not (now.ask.plugins or now.ask.extra_build_args):
        return
    try:
        dtype, _ = choose_dtype(now.ask.dtype, now.family, now.gpu, now.version)
    except SpecError:
        return  # that error is the one to mend first
    recipe = now.family.recipe
    fixed: dict[str, set[str]] = {}
    for name, value in (*recipe.encoder_flags, *recipe.build_flags):
        fixed.setdefault(name, set()).add(value)
    if dtype == "float32" and "remove_input_padding" in fixed:
        fixed[_FUSED_ATTENTION] = {"disable"}
    for path, name, value in _settings(now):
        rule = fixed.get(name, set())
        if rule and _BY_DTYPE not in rule and rule != {value}:
            yield plan_error(
                path,
                "PluginOfFamily",
                f"{name} is {' or '.join(sorted(rule))} for {now.family.name} in {dtype}, and "
                f"{value} builds engines that answer wrongly or not at all: remove it",
            )
        elif value in _DTYPES and value != dtype:
            yield plan_error(
                path,
                "PluginDtype",
                f"{name} computes in {value}, and the engine in {dtype}: set it to {dtype}, or set "
                "engine.dtype",
            )


def _settings(now: Situation) -> Iterator[tuple[str, str, str]]:
    """Yield the path, the name and the value of each setting that the spec writes."""
    for name, value in now.ask.plugins:
        yield f"engine.plugins.{name}", name, value
    given = now.ask.extra_build_args
    for argument, following in zip_longest(given, given[1:], fillvalue=""):
        name, has_value, value = argument.removeprefix("--").partition("=")
        if argument.startswith("--"):
            yield "engine.extraBuildArgs", name, value if has_value else following
