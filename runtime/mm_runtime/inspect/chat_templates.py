"""The chat template of a checkpoint, compiled and rendered before a build: as pods render it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2.exceptions import TemplateSyntaxError

from mm_api.checkpoint.values import Dimensions
from mm_api.documents.model_facts import InspectReason
from mm_api.families.family import Family
from mm_api.families.prompt import PromptStyle
from mm_runtime.base.chat_template import (
    PROBE,
    Media,
    PromptTemplate,
    TemplateRefusedError,
    Turn,
    is_deliberate,
    lacks_name,
    line_of,
    medium_of,
)
from mm_runtime.base.chat_template_files import (
    LEGACY_FILE,
    NAMED_FOLDER,
    FoundTemplate,
    locate_chat_template,
    locate_tools_template,
    named_files,
    special_tokens,
)
from mm_runtime.base.placeholders import own_style
from mm_runtime.errors import InspectRefusedError
from mm_runtime.inspect.tokenizer_files import tokenizer_folder

_MOST_CHARACTERS = 1024 * 1024
"""Templates of public checkpoints have up to about 20,000."""

_SHOWN = 300
"""Characters of an error: a template may put a conversation into one."""

_QUESTION, _ANSWER = Turn("user", (PROBE,)), Turn("assistant", (PROBE,))
_USUAL = {
    "messages of the system and the user": (Turn("system", (PROBE,)), _QUESTION),
    "several turns": (_QUESTION, _ANSWER, _QUESTION),
}
"""A template may refuse them, or fail on the form in which parts are given to it."""

_ADVICE = (
    "Expected what transformers renders (docs/design/checkpoints.md#chat-templates): correct "
    "it, or copy the file that was published with the weights."
)


def check_chat_template(source: Path, family: Family, dimensions: Dimensions) -> None:
    """Refuse a checkpoint whose conversations could not be written.

    A template may refuse a system's message, or a question without an image. What every chat of
    the family needs must stand in the prompt.

    Raises:
        InspectRefusedError: `ConfigMissing`: there is no template; `ConfigInvalid`.
    """
    if family.prompt is None:
        return
    style, tokenizer = family.prompt, tokenizer_folder(source)
    tower = dimensions.vision if style.reads_images else dimensions.audio
    if not family.has_tower:
        style = own_style(style, source / "config.json", source, tokenizer)
    if named_files(source) and (source / LEGACY_FILE).is_file():
        raise _invalid(
            f"{LEGACY_FILE} stands beside {NAMED_FOLDER}/, and transformers takes only one of them:"
            " write the template of the former to chat_template.jinja, and remove it"
        )
    found = [locate_chat_template(source, tokenizer, with_tools=one) for one in (False, True)]
    if found[0] is None and not style.chat:
        raise InspectRefusedError(
            InspectReason.CONFIG_MISSING,
            f"{source} holds no chat template: neither chat_template.jinja nor chat_template.json,"
            " nor the key chat_template in processor_config.json or, where there is no"
            f" {NAMED_FOLDER}/, in tokenizer_config.json. Without it no chat can be written. Copy"
            " the file that was published with the weights, or that of the model that was"
            " fine-tuned.",
        )
    special = special_tokens(tokenizer)
    for template in dict.fromkeys(one for one in found if one is not None):
        _check(template, special, style, media=tower is not None)
    if (for_tools := locate_tools_template(source, tokenizer)) is not None:
        _compiled(for_tools, special, style)  # a language model's own, that knows no images


def _compiled(
    found: FoundTemplate, special: Mapping[str, str], style: PromptStyle
) -> PromptTemplate:
    if len(found.source) > _MOST_CHARACTERS:
        raise _invalid(
            f"{found.file}: the chat template has {len(found.source)} characters; expected at most"
            f" {_MOST_CHARACTERS}. Copy the file that was published with the weights."
        )
    try:
        return PromptTemplate(found.source, special, style, file=found.file)
    except (TemplateSyntaxError, RecursionError) as error:
        raise _failed(found, error, "when it is compiled") from error


def _check(
    found: FoundTemplate, special: Mapping[str, str], style: PromptStyle, *, media: bool
) -> None:
    template = _compiled(found, special, style)
    medium, mark = medium_of(style)
    for one in _conversations((medium, mark) if media else None):
        try:
            prompt = template.render(one.turns)
        except TemplateRefusedError as refused:
            if one.is_fault(refused):
                cause = refused.__cause__ or refused
                raise _failed(found, cause, f"when it writes {one.what}") from refused
            continue
        missing = next((text for text in one.holds if text not in prompt), None)
        if missing is not None:
            raise _invalid(
                f"{found.file}: the chat template leaves {missing!r} out of {one.what}. {_ADVICE}"
            )


@dataclass(frozen=True, slots=True)
class _Conversation:
    what: str
    turns: Sequence[Turn]
    is_fault: Callable[[TemplateRefusedError], bool]
    """Whether the template must not fail so on it."""
    holds: tuple[str, ...] = ()
    """What must stand in the prompt."""


def _conversations(media: tuple[Media, str] | None) -> Iterator[_Conversation]:
    needed = (lambda _: True) if media is None else (lambda refused: not is_deliberate(refused))
    if media is not None:
        kind, mark = media
        question = Turn("user", (kind, PROBE))
        yield _Conversation(f"a message with {mark}", (question,), lambda _: True, (PROBE, mark))
    yield _Conversation("a message of the user", (_QUESTION,), needed, (PROBE,))
    for what, turns in _USUAL.items():
        yield _Conversation(what, turns, lacks_name)


def _failed(found: FoundTemplate, error: BaseException, when: str) -> InspectRefusedError:
    line = line_of(error)
    where = "the chat template" if line is None else f"line {line} of the chat template"
    said = str(error)[:_SHOWN].rstrip(".")
    return _invalid(f"{found.file}: {where} fails {when}: {said}. {_ADVICE}")


def _invalid(message: str) -> InspectRefusedError:
    return InspectRefusedError(InspectReason.CONFIG_INVALID, message)
