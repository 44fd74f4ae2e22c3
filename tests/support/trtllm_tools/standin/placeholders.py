"""What trtllm-serve's prompts are: where placeholders of media stand, by version.

Source: parse_chat_messages_coroutines of tensorrt_llm/serve/chat_utils.py, apply_chat_template of
tensorrt_llm/inputs/utils.py. Texts of a message are joined by newlines, and placeholders come in
front of them: of 1.0 those of all media in the last message, up to pull request 11461 those of all
media so far in each, since then those of the message's own.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from arguments import VERSION

MARKS = {
    "qwen2_vl": "<|vision_start|><|image_pad|><|vision_end|>",
    "llava_llama": "<image>",
    "llava_next": "<image>",
    "mllama": "<|image|>",
    "gemma3": "<start_of_image>",
}
_CANDIDATE = re.match(r"1\.3\.0rc(\d+)", VERSION)
_NEWEST = VERSION >= "1.3" and not (_CANDIDATE and int(_CANDIDATE[1]) <= 10)
"""The candidates between which both pull requests are were not read: 1.3.0rc10 has the first."""
_ONLY_LAST = VERSION.startswith(("0.", "1.0."))
_VARIABLE = re.compile(r"{{ (\w+) }}")


class RefusedPromptError(Exception):
    """A prompt that upstream answers with 400."""


@dataclass(frozen=True)
class Prompt:
    """What a chat template is given.

    Attributes:
        messages: role and content, a text.
        template: of the request; None: the checkpoint's.
        variables: of the template.
    """

    messages: list[dict[str, str]]
    template: str | None = None
    variables: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The prompt; of the checkpoint's template a line a message stands for it."""
        if self.template is None:
            return "".join(f"{one['role']}: {one['content']}\n" for one in self.messages)
        name = _VARIABLE.fullmatch(self.template)
        if name is None:
            raise RefusedPromptError(f"template {self.template} is not recorded")
        return str(self.variables[name[1]])


def prompt_of(body: dict[str, Any], kind: str) -> Prompt:
    template = body.get("chat_template")
    if template is not None and _NEWEST:
        # Pull request 14646; the flag that allows it is not recorded.
        raise RefusedPromptError(
            "chat_template cannot be supplied per request unless request-level chat templates are "
            "enabled at server startup."
        )
    parts = [_parts(message["content"]) for message in body["messages"]]
    media = Counter(one for _, kinds in parts for one in kinds)
    marks = {"image_url": MARKS.get(kind, "")}
    for one in media:
        if not marks.get(one):
            raise RefusedPromptError(f"Unknown modality: {one.removesuffix('_url')}")
    messages = [
        {"role": message["role"], "content": content}
        for message, content in zip(body["messages"], _placed(parts, marks), strict=True)
    ]
    prompt = Prompt(messages, template, body.get("chat_template_kwargs") or {})
    for one, mark in marks.items():
        found = prompt.text.count(mark) if mark else 0
        if found > media[one]:
            raise RefusedPromptError(
                f"index {media[one]} is out of bounds for dimension 0 with size {media[one]}"
            )
        if found < media[one]:
            raise RefusedPromptError(f"{found} placeholders stand for {media[one]} media")
    return prompt


def _parts(content: Any) -> tuple[list[str], list[str]]:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts = [one if isinstance(one, str) else one.get("text", "") for one in parts]
    kinds = [one["type"] for one in parts if not isinstance(one, str) and one["type"] != "text"]
    return [one for one in texts if one], kinds


def _placed(parts: list[tuple[list[str], list[str]]], marks: dict[str, str]) -> list[str]:
    seen: Counter[str] = Counter()
    found = []
    for number, (texts, kinds) in enumerate(parts, 1):
        seen.update(kinds)
        if _ONLY_LAST:
            shown = seen if number == len(parts) else Counter[str]()
        else:
            shown = Counter(kinds) if _NEWEST else seen
        in_front = [marks[kind] for kind, count in shown.items() for _ in range(count)]
        found.append("\n".join((*in_front, "\n".join(texts))))
    return found
