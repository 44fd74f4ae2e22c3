"""What trtllm-build and the converters are known not to do, and settings that make wrong engines.

The family's own settings stand in its recipe (upstream's guides, #encoders): one that is no dtype
is a rule of the family, and one that is a dtype is the engine's. They hold for `engine.plugins`
and for the same flags in `engine.extraBuildArgs`.
"""

from collections.abc import Iterator
from itertools import zip_longest

from mm_api.families.family import Kind
from mm_operator.errors import SpecError
from mm_operator.plan.engine.checks import Case, plan_error
from mm_operator.plan.engine.dtypes import choose_dtype
from mm_operator.plan.engine.tables import flags_of, table, version_of

CONVERTER_FLAGS = frozenset({"use_implicit_relative_attention"})
"""In `engine.extraBuildArgs`, though the converter has them (upstream's guide names them so)."""

_DTYPES = frozenset({"float16", "bfloat16", "float32"})
_BY_DTYPE = "{dtype}"
_FUSED_ATTENTION = "context_fmha"


LOOKAHEAD = "lookahead_decoding"


def check_engines(now: Case) -> Iterator[SpecError]:
    """Yield an error for a family that TensorRT-LLM has no engines of."""
    if not now.family.has_engines:
        others = " or ".join(now.family.backends)
        yield plan_error(
            "engine.backend",
            "BackendFamily",
            f"TensorRT-LLM builds no engines of {now.family.name}: use backend {others}",
        )


def check_version(now: Case) -> Iterator[SpecError]:
    """Yield an error for a version without engines, or with flags that are not known."""
    version, bounds = version_of(now.version), table("images")["engines"]
    if version > version_of(bounds["last"]):
        yield plan_error(
            "engine.backend",
            "BackendGone",
            f"TensorRT-LLM {now.version} has no engines any more ({bounds['last']} was the last): "
            "use backend PyTorch, or an image up to 26.07",
        )
    if version < version_of(bounds["first"]):
        yield plan_error(
            "build.image",
            "VersionTooOld",
            f"the flags of TensorRT-LLM {now.version} are not known (known from {bounds['first']} "
            "on): use an image of 24.12 or newer",
        )
    since = now.family.trtllm.since
    if since and version < version_of(since):
        yield plan_error(
            "build.image",
            "FamilyNeedsNewer",
            f"{now.family.name} is served by TensorRT-LLM {since} or newer, and the image has "
            f"{now.version}, whose backend is not known to take what the family needs: use an "
            "image of 25.05 or newer",
        )


def check_arguments(now: Case) -> Iterator[SpecError]:
    """Yield an error for each flag that is planned, or that trtllm-build does not have."""
    known, planned = (
        flags_of("trtllm-build", version_of(now.version)),
        table("tools")["plannedFlags"],
    )
    converter = now.family.trtllm.converter
    if converter:
        known |= CONVERTER_FLAGS & flags_of(converter, version_of(now.version))
    for name, _ in now.request.plugins:
        if name not in known or name in planned:
            yield plan_error(
                f"engine.plugins.{name}",
                "PluginUnknown",
                f"trtllm-build of TensorRT-LLM {now.version} has no plugin {name}: remove it",
            )
    given = [argument for argument in now.request.extra_build_args if argument.startswith("--")]
    for argument in given:
        name = argument[2:].partition("=")[0]
        if name in planned:
            yield plan_error(
                "engine.extraBuildArgs",
                "FlagIsPlanned",
                f"--{name} is planned, and memory was computed for its value: use the field of "
                "spec.engine",
            )
        elif name not in known:
            yield plan_error(
                "engine.extraBuildArgs",
                "FlagUnknown",
                f"trtllm-build of TensorRT-LLM {now.version} has no flag --{name}: remove it",
            )
    if any(LOOKAHEAD in argument for argument in now.request.extra_build_args) and (
        now.family.kind is Kind.PROMPT_TABLE
    ):
        yield plan_error(
            "engine.extraBuildArgs",
            "LookaheadPromptTable",
            "lookahead decoding with a prompt table gives wrong answers (upstream issue 6009): "
            "remove it",
        )


def check_chunked_context(now: Case) -> Iterator[SpecError]:
    """Yield an error where the engine could not read a prompt in parts."""
    settings = {(name, value) for _, name, value in _settings(now)}
    cross = now.family.kind is not Kind.PROMPT_TABLE
    built = now.request.reuse or ("use_paged_context_fmha", "enable") in settings
    if now.request.chunked_context and (cross or not built):
        yield plan_error(
            "runtime.triton.enableChunkedContext",
            "ChunkedContext",
            f"TensorRT-LLM reads prompts of {now.family.name} as one: remove the field"
            if cross
            else "an engine reads prompts in parts where it is built with --use_paged_context_fmha "
            "enable: add both to engine.extraBuildArgs",
        )


def check_plugins(now: Case) -> Iterator[SpecError]:
    """Yield an error for each setting against the family's rules or the engine's dtype."""
    if not (now.request.plugins or now.request.extra_build_args):
        return
    try:
        dtype, _ = choose_dtype(now.request.dtype, now.family, now.gpu, now.version)
    except SpecError:
        return  # that error has to be fixed first
    recipe = now.family.trtllm
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


def _settings(now: Case) -> Iterator[tuple[str, str, str]]:
    """Yield the path, the name and the value of each setting that the spec writes."""
    for name, value in now.request.plugins:
        yield f"engine.plugins.{name}", name, value
    given = now.request.extra_build_args
    for argument, following in zip_longest(given, given[1:], fillvalue=""):
        name, has_value, value = argument.removeprefix("--").partition("=")
        if argument.startswith("--"):
            yield "engine.extraBuildArgs", name, value if has_value else following
