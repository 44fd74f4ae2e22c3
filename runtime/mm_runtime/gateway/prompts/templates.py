"""The chat template of an engine in the gateway: with what it makes of tools and their calls."""

import re
from collections.abc import Mapping
from pathlib import Path

from mm_api.families.prompt import PromptStyle
from mm_runtime.base.chat_template import (
    PROBE,
    Call,
    PromptTemplate,
    TemplateRefusedError,
    Turn,
)
from mm_runtime.base.chat_template_files import (
    BUILT_IN,
    JINJA_FILE,
    FoundTemplate,
    locate_chat_template,
    locate_tools_template,
    special_tokens,
)
from mm_runtime.gateway.api.tool_dialects import PROBE as TOOL
from mm_runtime.gateway.api.tool_dialects import ToolDialect, dialect_of

_PROBE_ID = "probe0000"
"""Nine letters and digits: templates of Mistral's take no other ids."""

_THOUGHTS = re.compile(r"reasoning|\bthinking\b")


class ChatTemplate(PromptTemplate):
    """The chat template of one checkpoint."""

    def __init__(
        self,
        source: str,
        special: Mapping[str, str],
        style: PromptStyle,
        file: str = JINJA_FILE,
    ) -> None:
        super().__init__(source, special, style, file=file)
        self.takes_tools = self._writes(Turn("tool", (PROBE,)))
        """Messages of the role `tool` stand in the prompt."""

        self.takes_answers = self._writes(Turn("tool", (PROBE,), answers=_PROBE_ID))
        """The same of those that name the call that they answer: some templates fail without."""

        self.writes_names = self._detect_names()
        """Messages of the role `tool` stand there with the tool's name."""

        self.writes_thoughts = _THOUGHTS.search(source) is not None
        self.dialect = self._detect_dialect()
        """How calls of tools are written; None: tools have no place in the prompt."""

    def _writes(self, turn: Turn) -> bool:
        """Find out whether a turn with the probe stands in the prompt, after a question."""
        try:
            return PROBE in self.render([Turn("user", ("?",)), turn])
        except TemplateRefusedError:
            return False

    def _detect_names(self) -> bool:
        """Find out whether the name of a tool stands before what it has found."""
        call = Turn("assistant", (), (Call(_PROBE_ID, "f", {}),))
        answer = Turn("tool", ("?",), answers=_PROBE_ID, name=TOOL)
        try:
            return TOOL in self.render([Turn("user", ("?",)), call, answer])
        except TemplateRefusedError:
            return False

    def _detect_dialect(self) -> ToolDialect | None:
        probe = {"name": TOOL, "description": PROBE, "parameters": {"type": "object"}}
        question = Turn("user", ("?",))
        call = Turn("assistant", (), (Call(_PROBE_ID, TOOL, {"x": 1}),))
        answer = Turn("tool", (PROBE,), answers=_PROBE_ID, name=TOOL)
        try:
            if TOOL not in self.render([question], [probe]):
                return None
            return dialect_of(self.render([question, call, answer], [probe]))
        except TemplateRefusedError:
            return None


def load_template(
    processor: Path, style: PromptStyle, tokenizer: Path | None = None, *, with_tools: bool = False
) -> ChatTemplate:
    """Read the chat template of an engine; the family's own template is the last resort.

    Raises:
        ValueError: there is none.
    """
    found = locate_chat_template(processor, tokenizer, with_tools=with_tools)
    found = found or FoundTemplate(style.chat, BUILT_IN)
    if found.source:
        return ChatTemplate(found.source, special_tokens(tokenizer or processor), style, found.file)
    raise ValueError(
        f"{processor} holds no chat template (chat_template.jinja, chat_template.json, or the key "
        "chat_template of processor_config.json or tokenizer_config.json); add one to the "
        "checkpoint and build again"
    )


def load_tools_template(
    processor: Path, style: PromptStyle, tokenizer: Path | None = None
) -> ChatTemplate | None:
    """Read the template with which trtllm-serve writes tools; None: it would refuse them.

    It takes the tokenizer's for them and the processor's for all else (`resolve_hf_chat_template`
    of tensorrt_llm/inputs/utils.py).
    """
    found = locate_tools_template(processor, tokenizer)
    if found is None:
        return None
    return ChatTemplate(found.source, special_tokens(tokenizer or processor), style, found.file)
