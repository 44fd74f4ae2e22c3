"""From the text of a request to the prompt's token ids, with places for image features.

Text with an `<image>` placeholder, or one that starts with the checkpoint's begin token or with
what opens its family's conversations, is the whole prompt. Any other text is one user's message:
the chat template goes around it, with a placeholder for each picture.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

from mm_runtime.engine.chat_template import find_chat_template
from mm_runtime.engine.errors import RequestError

PLACEHOLDER = "<image>"

IMAGES = "{% for part in messages[0]['content'] if part['type'] == 'image' %}"
TEXT = "{% for part in messages[0]['content'] if part['type'] == 'text' %}{{ part['text'] }}"

LLAVA_WRAPPER = (
    "{% for message in messages %}USER:\n"
    "{% for part in message['content'] if part['type'] == 'image' %}<image>\n{% endfor %}"
    "{% for part in message['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}"
    " ASSISTANT:{% endfor %}"
)
"""LLaVA-1.5's prompt as upstream's preprocessing writes it; used when there is no template."""

VILA_WRAPPER = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions. USER: "
    + IMAGES
    + "<image>\n{% endfor %}"
    + TEXT
    + "{% endfor %} ASSISTANT:"
)
ONEVISION_WRAPPER = (
    "<|im_start|>user "
    + IMAGES
    + "<image>\n{% endfor %}"
    + "{% for part in messages[0]['content'] if part['type'] == 'video' %}<video>\n{% endfor %}"
    + TEXT
    + "{% endfor %}<|im_end|><|im_start|>assistant\n"
)
QWEN2_VL_WRAPPER = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
    + IMAGES
    + "<|vision_start|><|image_pad|><|vision_end|>{% endfor %}"
    + "{% for part in messages[0]['content'] if part['type'] == 'video' %}"
    + "<|vision_start|><|video_pad|><|vision_end|>{% endfor %}"
    + TEXT
    + "{% endfor %}<|im_end|>\n<|im_start|>assistant\n"
)


_PARTS = (
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}MARK"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}"
)
VILA_CHAT = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions."
    "{% for message in messages %}{% set role = message['role'] %}"
    "{% set after = loop.previtem is defined and loop.previtem['role'] == 'assistant' %}"
    "{{ '' if after else ' ' }}"
    "{{ 'USER: ' if role == 'user' else 'ASSISTANT: ' if role == 'assistant' else '' }}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>{{ '\\n' }}"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{{ '</s>' if role == 'assistant' else '' }}"
    "{% endfor %} ASSISTANT:"
)
"""Vicuna's conversation, as VILA 1.5 was tuned with it."""

PLAIN_CHAT = (
    "{% for message in messages %}"
    "{% for part in message['content'] if part['type'] == 'image' %}MARK{% endfor %}"
    "{% endfor %}"
    "{% for message in messages %}{{ '' if loop.first else '\\n' }}"
    "{% for part in message['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}"
    "{% endfor %}"
)
"""A model that was never tuned for chats continues text: pictures first, then a line a turn."""


@dataclass(frozen=True)
class PromptStyle:
    """How a family writes prompts."""

    wrapper: str
    """Template of checkpoints that bring none, as upstream's preprocessing writes it."""

    placeholder: str = PLACEHOLDER
    video: str = ""
    splits: bool = False
    """The placeholder is no token: the text is cut there, and features go in between."""

    opening: str = ""
    """How every conversation begins: a text that begins so is a whole prompt."""

    chat: str = ""
    """Template of whole conversations for checkpoints that bring none; empty: they have to."""

    @property
    def reserved(self) -> tuple[str, ...]:
        """Return what a user's text must not contain: it would claim a picture or a video."""
        return (self.placeholder, self.video) if self.video else (self.placeholder,)


LLAVA = PromptStyle(LLAVA_WRAPPER)
STYLES = {
    "llava": LLAVA,
    "vila": PromptStyle(VILA_WRAPPER, splits=True, chat=VILA_CHAT),
    # Its features come first, without a word of the model's in front of them.
    "blip2-opt": PromptStyle(
        IMAGES + "<image>{% endfor %}" + TEXT + "{% endfor %}",
        splits=True,
        chat=PLAIN_CHAT.replace("MARK", "<image>"),
    ),
    "llava-onevision": PromptStyle(ONEVISION_WRAPPER, video="<video>", opening="<|im_start|>"),
    "qwen2-vl": PromptStyle(
        QWEN2_VL_WRAPPER, "<|image_pad|>", "<|video_pad|>", opening="<|im_start|>"
    ),
    "mllama": PromptStyle(
        IMAGES + "<|image|>{% endfor %}" + TEXT + "{% endfor %}",
        "<|image|>",
        chat=PLAIN_CHAT.replace("MARK", "<|image|>"),
    ),
}
"""Family -> how it writes prompts. Encoder-decoders have no entry: their text is the prompt."""


class PromptWriter:
    """Puts the checkpoint's chat template around a bare question."""

    def __init__(self, template: str, begin_token: str | None, style: PromptStyle = LLAVA) -> None:
        """Compile the template in jinja's sandbox: it came with the checkpoint."""
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _refuse
        self._template = environment.from_string(template)
        self._begin_token = begin_token
        self._style = style

    @classmethod
    def from_folder(
        cls, folder: Path, begin_token: str | None, style: PromptStyle = LLAVA
    ) -> "PromptWriter":
        """Take the template of a processor folder, or the family's wrapper when it has none."""
        return cls(find_chat_template(folder) or style.wrapper, begin_token, style)

    def write(self, text: str, images: int, *, video: bool = False) -> str:
        """Return the whole prompt for `text` and this many pictures, or one video.

        Raises:
            RequestError: placeholders and pictures disagree in number.
        """
        style = self._style
        openings = tuple(filter(None, (self._begin_token, style.opening)))
        whole = text.startswith(openings) if openings else False
        placeholder = style.video if video else style.placeholder
        if placeholder not in text and not whole:
            kind = "video" if video else "image"
            parts: list[dict[str, Any]] = [{"type": kind}] * images
            parts.append({"type": "text", "text": text})
            messages = [{"role": "user", "content": parts}]
            text = self._template.render(messages=messages, add_generation_prompt=True)
        placeholders = text.count(placeholder)
        if placeholders != images:
            raise RequestError(
                f"the prompt has {placeholders} {placeholder} placeholder(s) and the request "
                f"{images} image(s); send one image for each placeholder"
            )
        return text


def place_features(
    ids: Sequence[int], *, image_token_id: int | None, rows: Sequence[int], vocabulary_size: int
) -> list[int]:
    """Replace each image token by one id per feature row: vocabulary size + row of the table.

    The tables of several pictures lie one after another, so the second picture's rows start after
    the first one's. A token beyond those of `rows` stays.
    """
    placed: list[int] = []
    next_row = vocabulary_size
    waiting = list(rows)
    for token in ids:
        if token == image_token_id and waiting:
            count = waiting.pop(0)
            placed.extend(range(next_row, next_row + count))
            next_row += count
        else:
            placed.append(token)
    return placed


def _refuse(message: str) -> None:
    """What chat templates call to refuse a conversation."""
    raise RequestError(f"the checkpoint's chat template refuses the request: {message}")
