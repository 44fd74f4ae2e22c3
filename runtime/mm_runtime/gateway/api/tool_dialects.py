"""PURE: how models write their calls of tools, seen from what their own chat template writes."""

import re
from dataclasses import dataclass, replace

PROBE = "probe_of_calls"
"""Name of the function that templates are tried with."""


@dataclass(frozen=True, slots=True)
class ToolDialect:
    """One way to write calls.

    Attributes:
        opening: stands before a call, or before all of them; empty: an answer that begins with `{`
            is a call.
        closing: stands behind each call; empty: its braces end it.
        arguments: key of the arguments.
        listed: the calls are one JSON list.
        several: an answer may hold more than one call.
        id_length: of the ids that the template takes, which may be letters and digits only.
        opening_id: where `opening` is a control token, that token.
    """

    opening: str
    closing: str
    arguments: str
    written: re.Pattern[str]
    """Finds a call of the probe."""

    listed: bool = False
    several: bool = True
    id_length: int = 24
    opening_id: int | None = None

    def call_id(self, digest: str) -> str:
        """Return the id of a call, made of a digest's hexadecimal digits."""
        made = digest[: self.id_length]
        return made if self.listed else f"call_{made}"

    def with_control(self, token: int | None) -> "ToolDialect":
        return replace(self, opening_id=token)


HERMES = ToolDialect(
    "<tool_call>",
    "</tool_call>",
    "arguments",
    re.compile(rf'<tool_call>\s*\{{\s*"name":\s*"{PROBE}"'),
)
"""As Hermes and Qwen write them."""

MISTRAL = ToolDialect(
    "[TOOL_CALLS]",
    "",
    "arguments",
    re.compile(rf'\[TOOL_CALLS\]\s*\[\s*\{{\s*"name":\s*"{PROBE}"'),
    listed=True,
    id_length=9,
)

LLAMA = ToolDialect(
    "", "", "parameters", re.compile(rf'\{{"name":\s*"{PROBE}",\s*"parameters":'), several=False
)
"""As Llama 3 writes them."""

DIALECTS = (HERMES, MISTRAL, LLAMA)


def dialect_of(rendered: str) -> ToolDialect | None:
    """Return the way in which a template has written a call of the probe; None: an unknown one."""
    return next((one for one in DIALECTS if one.written.search(rendered)), None)
