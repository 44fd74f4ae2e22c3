"""From the messages of a chat to the model's complete prompt and the media that belong in it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mm_api.families.prompt import PromptStyle
from mm_edge.errors import InvalidRequestError
from mm_runtime.base.chat_template import Call, Media, TemplateRefusedError, Tool, Turn
from mm_runtime.gateway.api.messages import (
    THOUGHTS,
    AudioPart,
    ImagePart,
    InputAudioPart,
    Message,
    RefusalPart,
    TextPart,
    ThoughtPart,
    VideoPart,
    VideoUrl,
)
from mm_runtime.gateway.api.openai import ChatRequest
from mm_runtime.gateway.api.tool_dialects import ToolDialect
from mm_runtime.gateway.media.frame_choice import FrameChoice
from mm_runtime.gateway.media.images import ImageReference, VideoReference
from mm_runtime.gateway.media.recordings import AudioReference
from mm_runtime.gateway.prompts.templates import ChatTemplate

_SEARCHED = 1 << 19
"""Characters searched at one time, in up to 20 ms that no other thread runs in."""

_LONGEST = 1024
"""Characters of a control token."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A chat, its media set apart, each kind in order."""

    turns: list[Turn]
    images: list[ImageReference]
    videos: list[VideoReference]
    recordings: list[AudioReference] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    variables: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """How one model's conversations are written.

    `begin`: text of the begin token; empty: there is none. `control`: finds what becomes a control
    token: with it a text could end its own turn and begin another role's. `dialect` None: no tools
    can be offered. `drops_names`: the server that writes the prompt leaves out the names of tools.
    """

    template: ChatTemplate
    style: PromptStyle
    begin: str
    control: re.Pattern[str] | None
    dialect: ToolDialect | None
    with_tools: ChatTemplate
    drops_names: bool = False

    def split(self, request: ChatRequest) -> Conversation:
        """Split the messages into turns for the template and references to media.

        Raises:
            InvalidRequestError: a text holds what stands for an image, or a control token; or there
                are tools, of which the template knows nothing.
        """
        tools, variables = self._tools(request), self._variables(request)
        found = Conversation([], [], [], tools=tools, variables=variables)
        template = self._template(found)
        for number, message in enumerate(request.messages):
            parts: list[str | Media] = []
            content = [] if message.content is None else message.content
            where = f"messages[{number}].content"
            for index, part in enumerate([content] if isinstance(content, str) else content):
                match part:
                    case str():
                        parts.append(self._plain(part, where))
                    case TextPart() | RefusalPart():
                        parts.append(self._plain(part.text, f"{where}[{index}]"))
                    case ImagePart():
                        parts.append(Media.IMAGE)
                        image = part.image_url
                        found.images.append(
                            ImageReference(image.url, f"{where}[{index}]", image.detail)
                        )
                    case VideoPart():
                        parts.append(Media.VIDEO)
                        found.videos.append(_video(part.video_url, f"{where}[{index}]"))
                    case InputAudioPart() | AudioPart():
                        parts.append(Media.AUDIO)
                        found.recordings.append(_recording(part, f"{where}[{index}]"))
            self._check_joined(parts, where)
            where = f"messages[{number}]"
            _check_thought(message, where, template)
            role, calls = _role(message, template), self._calls(message, where, template)
            turn = Turn(role, tuple(parts), calls)
            if role == "tool":
                answers = self._optional(message.tool_call_id, f"{where}.tool_call_id")
                name = self._optional(message.name, f"{where}.name")
                if name is not None and self.drops_names and template.writes_names:
                    raise InvalidRequestError(
                        f"`{where}.name` would stand in the prompt, and trtllm-serve drops it. "
                        "Leave it out.",
                        param=f"{where}.name",
                        code="unsupported_parameter",
                    )
                turn = Turn(role, tuple(parts), answers=answers, name=name)
            found.turns.append(turn)
        return found

    def _template(self, conversation: Conversation) -> ChatTemplate:
        return self.with_tools if conversation.tools else self.template

    def question(self, turn: Turn) -> str:
        return self.write(Conversation([turn], [], []))

    def write(self, conversation: Conversation) -> str:
        """Return the complete prompt.

        It begins with the begin token's text when nothing else marks it as complete: to the
        preprocessing model a prompt without such a mark is a bare question, which it would wrap
        once more.

        Raises:
            InvalidRequestError: the template refuses the conversation.
        """
        try:
            prompt = self._template(conversation).render(
                conversation.turns, conversation.tools, conversation.variables
            )
        except TemplateRefusedError as error:
            raise InvalidRequestError(f"`messages`: {error}.", param="messages") from error
        marks = tuple(filter(None, (self.begin, self.style.opening)))
        complete = any(mark in prompt for mark in self.style.reserved) or prompt.startswith(marks)
        return prompt if complete else self.begin + prompt

    def written(self, text: str, param: str) -> str:
        """Return a prompt that its client has written itself, control tokens among it.

        `param`: the part of the request that holds it.

        Raises:
            InvalidRequestError: it holds what stands for an image, or nothing marks it as complete:
                the preprocessing model would take it for a question.
        """
        for mark in self.style.reserved:
            if mark in text:
                raise InvalidRequestError(
                    f"`{param}` contains {mark!r}, which stands for an image or other media. POST "
                    "/v1/chat/completions with images.",
                    param=param,
                )
        if not self.begin and not text.startswith(self.style.opening or ()):
            raise InvalidRequestError(
                f"`{param}` must begin with {self.style.opening!r}, as prompts of this model do. "
                "For a question POST /v1/chat/completions.",
                param=param,
            )
        return self.begun(text)

    def begun(self, text: str) -> str:
        """Return a text behind the begin token, which stands there or is added.

        A text with the family's opening, and one for a tokenizer without such a token, stay as
        they are.
        """
        marks = tuple(filter(None, (self.begin, self.style.opening)))
        return text if text.startswith(marks) else self.begin + text

    def _tools(self, request: ChatRequest) -> list[Tool]:
        """Return the functions that the model may call, their texts checked."""
        if request.offered and self.dialect is None:
            raise InvalidRequestError(
                "The chat template of this model has no place for tools. Leave `tools` out.",
                param="tools",
                code="unsupported_parameter",
            )
        tools: list[Tool] = [tool.function.to_template() for tool in request.offered]
        for number, tool in enumerate(tools):
            for text in _texts(tool):
                self._plain(text, f"tools[{number}].function")
        return tools

    def _variables(self, request: ChatRequest) -> Mapping[str, object]:
        variables = request.chat_template_kwargs or {}
        for text in _texts(variables):
            self._plain(text, "chat_template_kwargs")
        return variables

    def _calls(self, message: Message, where: str, template: ChatTemplate) -> tuple[Call, ...]:
        if not message.tool_calls:
            return ()
        param = f"{where}.tool_calls"
        if template.dialect is None:
            raise InvalidRequestError(
                "The chat template of this model has no place for calls of tools. Leave "
                f"`{param}` out, or write what they have found as text.",
                param=param,
                code="unsupported_parameter",
            )
        calls = [
            Call(call.id, call.function.name, call.function.values) for call in message.tool_calls
        ]
        for call in calls:
            for text in (call.id, call.name, *_texts(call.arguments)):
                self._plain(text, param)
        return tuple(calls)

    def _optional(self, text: str | None, param: str) -> str | None:
        return None if text is None else self._plain(text, param)

    def _check_joined(self, parts: list[str | Media], param: str) -> None:
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) > 1:
            self._plain("".join(texts), param)

    def _plain(self, text: str, param: str) -> str:
        """Refuse a text that holds a placeholder, which claims an image, or a control token."""
        for mark in self.style.reserved:
            if mark in text:
                raise InvalidRequestError(
                    f"`{param}` contains {mark!r}, which stands for an image or other media. Leave "
                    "it out: those parts are placed by their position.",
                    param=param,
                )
        for start in range(0, len(text), _SEARCHED):
            end = start + _SEARCHED + _LONGEST
            if self.control is not None and (found := self.control.search(text, start, end)):
                raise InvalidRequestError(
                    f"`{param}` contains {found[0]!r}, a control token of this model. Write it in "
                    "another way, for example with a blank inside.",
                    param=param,
                    code="control_token",
                )
        return text


def _check_thought(message: Message, where: str, template: ChatTemplate) -> None:
    """Refuse what an assistant has thought where a template would write it; else it is dropped."""
    found = [name for name in THOUGHTS if getattr(message, name) is not None]
    parts = message.content if isinstance(message.content, list) else ()
    found += [f"content[{at}]" for at, one in enumerate(parts) if isinstance(one, ThoughtPart)]
    if found and template.writes_thoughts:
        raise InvalidRequestError(
            f"`{where}.{found[0]}` is what this model's template would write. Leave it out.",
            param=f"{where}.{found[0]}",
            code="unsupported_parameter",
        )


def _role(message: Message, template: ChatTemplate) -> str:
    """Return the role under which a template writes a message.

    Templates know no developers, and many leave out messages of tools without a word: those stand
    there as the user's.
    """
    if message.role == "developer":
        return "system"
    named = message.tool_call_id is not None
    taken = template.takes_answers if named else template.takes_tools
    return message.role if message.role != "tool" or taken else "user"


def _recording(part: InputAudioPart | AudioPart, param: str) -> AudioReference:
    if isinstance(part, AudioPart):
        return AudioReference(part.audio_url.url, param)
    sent = part.input_audio
    return AudioReference(f"data:audio/{sent.format};base64,{sent.data}", param, sent.format)


def _video(video: VideoUrl, param: str) -> VideoReference:
    choice = FrameChoice(video.fps, video.num_frames, video.max_frames)
    return VideoReference(video.url, param, choice)


def _texts(value: object) -> Iterator[str]:
    """Yield every text inside of JSON, keys among them."""
    match value:
        case str():
            yield value
        case dict():
            for key, one in value.items():
                yield str(key)
                yield from _texts(one)
        case list():
            for one in value:
                yield from _texts(one)
        case _:
            pass


def control_pattern(tokens: Iterable[str]) -> re.Pattern[str] | None:
    """Return what finds the first of some texts, the longest where several begin together.

    Texts share their beginnings: tried one after the other, a thousand of them would take a minute
    of a client's 4 MB of `<`.
    """
    root: dict[str, Any] = {}
    for one in tokens:
        node = root
        for letter in one:
            node = node.setdefault(letter, {})
        node[""] = {}
    return re.compile(_pattern(root)) if root else None


def _pattern(node: dict[str, Any]) -> str:
    """Return the pattern of what may follow; the end of a text comes last."""
    begun = ""
    while len(node) == 1 and "" not in node:
        ((letter, node),) = node.items()
        begun += re.escape(letter)
    ways = [re.escape(one) + _pattern(rest) for one, rest in node.items() if one]
    if not ways:
        return begun
    return f"{begun}(?:{'|'.join(ways)})" + "?" * ("" in node)
