"""How families write prompts: jinja templates, placeholders and what opens a conversation."""

from dataclasses import dataclass

PLACEHOLDER = "<image>"

IMAGES = "{% for part in messages[0]['content'] if part['type'] == 'image' %}"
TEXT = "{% for part in messages[0]['content'] if part['type'] == 'text' %}{{ part['text'] }}"

VIDEOS = "{% for part in messages[0]['content'] if part['type'] == 'video' %}"

PLAIN_CHAT = (
    "{% for message in messages %}"
    "{% for part in message['content'] if part['type'] == 'image' %}MARK{% endfor %}"
    "{% endfor %}"
    "{% for message in messages %}{{ '' if loop.first else '\\n' }}"
    "{% for part in message['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}"
    "{% endfor %}"
)
"""A model that was never tuned for chats continues text: images first, then a line a turn."""


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """How a family writes prompts."""

    wrapper: str
    """Template of checkpoints that bring none, as upstream's preprocessing writes it."""

    placeholder: str = PLACEHOLDER
    video: str = ""
    audio: str = ""
    """Stands for a recording; empty: conversations hold none."""
    reads_images: bool = True
    framed: str = ""
    """What the checkpoint's processor writes for a placeholder: that one between tokens of its own;
    empty: the placeholder alone."""
    splits: bool = False
    """The placeholder is no token: the text is cut there, and features go in between."""
    join: str = "\n"
    """Between the parts of a message, where a template takes one text."""
    opening: str = ""
    """How every conversation begins: a text that begins so is a complete prompt."""

    chat: str = ""
    """Template of complete conversations for checkpoints that bring none; empty: they have to."""

    @property
    def reserved(self) -> tuple[str, ...]:
        """Return what a user's text must not contain: it would claim an image or other media."""
        images = self.placeholder if self.reads_images else ""
        return tuple(filter(None, (images, self.video, self.audio)))


def prompt_style(placeholder: str) -> PromptStyle:
    """Return how prompts with this placeholder are written where a checkpoint has no template."""
    wrapper = IMAGES + placeholder + "{% endfor %}" + TEXT + "{% endfor %}"
    return PromptStyle(wrapper, placeholder, chat=PLAIN_CHAT.replace("MARK", placeholder))


def chatml(image: str, video: str = "", system: str = "") -> str:
    """Return the wrapper of one message of a user in ChatML, images and videos before its text."""
    videos = VIDEOS + video + "{% endfor %}" if video else ""
    media = IMAGES + image + "{% endfor %}" + videos
    end = "{% endfor %}<|im_end|>\n<|im_start|>assistant\n"
    return system + "<|im_start|>user\n" + media + TEXT + end
