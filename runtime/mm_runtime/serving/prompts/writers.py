"""From the text of a request to the prompt's token ids, with places for image features.

Text with an `<image>` placeholder, or one that starts with the checkpoint's begin token or with
what opens its family's conversations, is the complete prompt. Any other text is one user's message:
the chat template goes around it, with a placeholder for each image.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from mm_api.families.prompt import PromptStyle
from mm_runtime.base.chat_template import Media, PromptTemplate, TemplateRefusedError, Turn
from mm_runtime.base.chat_template_files import (
    BUILT_IN,
    FoundTemplate,
    locate_chat_template,
    special_tokens,
)
from mm_runtime.serving.errors import RequestError

_NO_TOKENS: Mapping[str, str] = MappingProxyType({})


class PromptWriter:
    """Puts the checkpoint's chat template around a bare question."""

    def __init__(
        self,
        template: str,
        begin_token: str | None,
        style: PromptStyle,
        special: Mapping[str, str] = _NO_TOKENS,
        file: str = BUILT_IN,
    ) -> None:
        """Compile the template.

        `template`: of the checkpoint or of the family. `special`: tokens that the template knows by
        name, besides that one.
        """
        begin = {} if begin_token is None else {"bos_token": begin_token}
        self._template = PromptTemplate(template, {**special, **begin}, style, file=file)
        self._begin_token = begin_token
        self._style = style

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        begin_token: str | None,
        style: PromptStyle,
        tokenizer: Path | None = None,
    ) -> "PromptWriter":
        """Take the template of a processor folder, or the family's wrapper when it has none."""
        # jinja drops the last newline of a template; the wrapper's own is part of the prompt.
        ended = style.wrapper + "\n" if style.wrapper.endswith("\n") else style.wrapper
        found = locate_chat_template(folder, tokenizer) or FoundTemplate(ended, BUILT_IN)
        return cls(
            found.source, begin_token, style, special_tokens(tokenizer or folder), found.file
        )

    def write(
        self,
        text: str,
        images: int,
        *,
        video: bool = False,
    ) -> str:
        """Return the complete prompt for `text` and this many images, or one video.

        Raises:
            RequestError: placeholders and images disagree in number.
        """
        style = self._style
        openings = tuple(filter(None, (self._begin_token, style.opening)))
        complete = text.startswith(openings) if openings else False
        placeholder = style.video if video else style.placeholder
        complete = complete or bool(style.audio and style.audio in text)
        if placeholder not in text and not complete:
            marks = (Media.VIDEO,) if video else (Media.IMAGE,) * images
            try:
                text = self._template.render([Turn("user", (*marks, text))])
            except TemplateRefusedError as error:
                raise RequestError(str(error)) from error
        placeholders = text.count(placeholder)
        if placeholders != images and style.reads_images:
            raise RequestError(
                f"the prompt has {placeholders} {placeholder} placeholder(s) and the request "
                f"{images} image(s); send one image for each placeholder"
            )
        return text


def place_features(
    ids: Sequence[int],
    *,
    feature_id: int | None,
    rows: Sequence[int],
    vocabulary_size: int,
) -> list[int]:
    """Replace each placeholder by one id per feature row: vocabulary size + row of the table.

    The tables of several images lie one after another, so the second image's rows start after
    the first one's. A token beyond those of `rows` stays.

    `feature_id`: the token that is a placeholder; None: none is.
    """
    placed: list[int] = []
    next_row = vocabulary_size
    waiting = list(rows)
    for token in ids:
        if waiting and token == feature_id:
            count = waiting.pop(0)
            placed.extend(range(next_row, next_row + count))
            next_row += count
        else:
            placed.append(token)
    return placed
