"""Conversations -> the prompt text the model was trained on, through the checkpoint's template.

Templates come with checkpoints, so they are rendered in jinja2's sandbox. Image parts become the
placeholder `<image>`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import jinja2
from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

PLACEHOLDER: Final = "<image>"
_PROBE = "a probe of the template"


class TemplateRefusedError(Exception):
    """The template cannot render this conversation, for example an order of roles it forbids."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message: its role and its parts in order, text or None for an image."""

    role: str
    parts: tuple[str | None, ...]


class ChatTemplate:
    """The chat template of one checkpoint."""

    def __init__(self, source: str, special_tokens: dict[str, str] | None = None) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols], autoescape=False
        )
        environment.globals["raise_exception"] = _raise
        environment.filters["tojson"] = _to_json
        self._template = environment.from_string(source)
        self._special = special_tokens or {}
        self._takes_parts = self._detect_parts()

    def render(self, turns: Sequence[Turn]) -> str:
        """Return the prompt, ending where the assistant's answer begins.

        Raises:
            TemplateRefusedError: the template refuses the conversation or fails on it.
        """
        write = _as_parts if self._takes_parts else _as_text
        return self._render([write(turn) for turn in turns])

    def _render(self, messages: list[dict[str, Any]]) -> str:
        try:
            return self._template.render(
                messages=messages, add_generation_prompt=True, **self._special
            )
        except (TemplateError, TypeError, ValueError, KeyError) as error:
            raise TemplateRefusedError(
                f"the model's chat template does not take this conversation ({error})"
            ) from error

    def _detect_parts(self) -> bool:
        """Find out whether the template reads content as a list of parts or as one text.

        A template for text prints the list itself (with its quotes) or fails on it.
        """
        try:
            rendered = self._render([_as_parts(Turn("user", (None, _PROBE)))])
        except TemplateRefusedError:
            return False
        return rendered.count(PLACEHOLDER) == 1 and _PROBE in rendered and "'type'" not in rendered


def load_template(processor: Path) -> ChatTemplate:
    """Read the chat template from an engine's processor directory.

    `chat_template.jinja` wins over `chat_template.json` over tokenizer_config.json, as in
    transformers.

    Raises:
        ValueError: there is none.
    """
    config = _read_json(processor / "tokenizer_config.json")
    special = _special_tokens(config)
    path = processor / "chat_template.jinja"
    if path.is_file():
        return ChatTemplate(path.read_text(encoding="utf-8"), special)
    for source in (_read_json(processor / "chat_template.json"), config):
        template = source.get("chat_template")
        if isinstance(template, str):
            return ChatTemplate(template, special)
    raise ValueError(
        f"{processor} holds no chat template (chat_template.jinja, chat_template.json or "
        "chat_template in tokenizer_config.json); add one to the checkpoint and build again"
    )


def _special_tokens(config: dict[str, Any]) -> dict[str, str]:
    return {
        name: value if isinstance(value, str) else str(value.get("content", ""))
        for name in ("bos_token", "eos_token", "pad_token", "unk_token")
        if (value := config.get(name))
    }


def _as_parts(turn: Turn) -> dict[str, Any]:
    parts = [
        {"type": "image"} if part is None else {"type": "text", "text": part} for part in turn.parts
    ]
    return {"role": turn.role, "content": parts}


def _as_text(turn: Turn) -> dict[str, Any]:
    lines = (PLACEHOLDER if part is None else part for part in turn.parts)
    return {"role": turn.role, "content": "\n".join(lines)}


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_json(value: object, indent: int | None = None) -> str:
    """Print JSON as transformers' templates expect: not escaped for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)
