"""Whether a build can know the prompt that trtllm-serve writes of a chat."""

from pathlib import Path
from typing import Final

from mm_runtime.base.chat_template_files import find_chat_template

TODAY: Final = "strftime_now"
"""What templates call for the date; transformers gives it to them."""


def unknown_prompt(checkpoint: Path) -> str | None:
    """Return why no build knows the prompt a server writes; None: it is the template's."""
    template = find_chat_template(checkpoint)
    if template is None:
        return "the checkpoint has no chat template: pods are not compared with it"
    if TODAY in template:
        return (
            "the checkpoint's chat template writes the date of the day: pods are not compared with"
            " it. A template with a fixed date is"
        )
    return None
