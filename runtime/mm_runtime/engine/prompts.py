"""From the text of a request to the prompt's token ids, with places for image features.

Text with an `<image>` placeholder, or one that starts with the checkpoint's begin token, is the
whole prompt. Any other text is one user's message: the chat template goes around it, with a
placeholder for each picture.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

from mm_runtime.engine.errors import RequestError

PLACEHOLDER = "<image>"
TEMPLATE = "chat_template.jinja"

LLAVA_WRAPPER = (
    "{% for message in messages %}USER:\n"
    "{% for part in message['content'] if part['type'] == 'image' %}<image>\n{% endfor %}"
    "{% for part in message['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}"
    " ASSISTANT:{% endfor %}"
)
"""LLaVA-1.5's prompt as upstream's preprocessing writes it; used when there is no template."""


class PromptWriter:
    """Puts the checkpoint's chat template around a bare question."""

    def __init__(self, template: str, begin_token: str | None) -> None:
        """Compile the template in jinja's sandbox: it came with the checkpoint."""
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _refuse
        self._template = environment.from_string(template)
        self._begin_token = begin_token

    @classmethod
    def from_folder(cls, folder: Path, begin_token: str | None) -> "PromptWriter":
        """Take the template of a processor folder, or LLaVA's wrapper when it has none."""
        if (folder / TEMPLATE).is_file():
            return cls((folder / TEMPLATE).read_text(), begin_token)
        for name in ("processor_config.json", "tokenizer_config.json"):
            if (folder / name).is_file():
                template = json.loads((folder / name).read_text()).get("chat_template")
                if isinstance(template, str):
                    return cls(template, begin_token)
        return cls(LLAVA_WRAPPER, begin_token)

    def write(self, text: str, images: int) -> str:
        """Return the whole prompt for `text` and this many pictures.

        Raises:
            RequestError: placeholders and pictures disagree in number.
        """
        whole = self._begin_token is not None and text.startswith(self._begin_token)
        if PLACEHOLDER not in text and not whole:
            parts: list[dict[str, Any]] = [{"type": "image"}] * images
            parts.append({"type": "text", "text": text})
            messages = [{"role": "user", "content": parts}]
            text = self._template.render(messages=messages, add_generation_prompt=True)
        placeholders = text.count(PLACEHOLDER)
        if placeholders != images:
            raise RequestError(
                f"the prompt has {placeholders} {PLACEHOLDER} placeholder(s) and the request "
                f"{images} image(s); send one image for each placeholder"
            )
        return text


def place_features(
    ids: Sequence[int], *, image_token_id: int | None, features_per_image: int, vocabulary_size: int
) -> list[int]:
    """Replace each image token by one id per feature row: vocabulary size + row of the table.

    The tables of several pictures lie one after another, so the second picture's rows start at
    `features_per_image`.
    """
    placed: list[int] = []
    next_row = vocabulary_size
    for token in ids:
        if token == image_token_id:
            placed.extend(range(next_row, next_row + features_per_image))
            next_row += features_per_image
        else:
            placed.append(token)
    return placed


def _refuse(message: str) -> None:
    """What chat templates call to refuse a conversation."""
    raise RequestError(f"the checkpoint's chat template refuses the request: {message}")
