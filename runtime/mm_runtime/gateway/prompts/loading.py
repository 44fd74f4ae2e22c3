"""How one engine's conversations are written, read from its files."""

from collections.abc import Callable, Sequence

from mm_runtime.base.chat_template import Tool, Turn
from mm_runtime.gateway.prompts.conversation import ChatPrompt, control_pattern
from mm_runtime.gateway.prompts.templates import load_template, load_tools_template
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.prompts.styles import style_of
from mm_runtime.serving.prompts.tokens import TextCodec


def load_chat_prompt(
    directory: EngineDirectory, codec: TextCodec, *, written_by_server: bool = False
) -> ChatPrompt:
    """Return how the model's conversations are written.

    `written_by_server`: trtllm-serve writes them, and tools with a template of its choice.
    """
    style = style_of(directory, codec)
    template = with_tools = load_template(directory.processor, style, directory.tokenizer)
    if written_by_server:
        found = load_tools_template(directory.processor, style, directory.tokenizer)
        dialect = None if found is None else found.dialect
        with_tools = found or template
    else:
        folders = (directory.processor, style, directory.tokenizer)
        with_tools = load_template(*folders, with_tools=True)
        dialect = with_tools.dialect
    if dialect is not None and dialect.opening in codec.control_tokens:
        dialect = dialect.with_control(codec.id_of(dialect.opening))
    return ChatPrompt(
        template,
        style,
        codec.begin_token or "",
        control_pattern(codec.control_tokens),
        dialect,
        with_tools,
        drops_names=written_by_server,
    )


def load_turn_writer(directory: EngineDirectory) -> Callable[[Sequence[Turn], Sequence[Tool]], str]:
    """Return what writes conversations as trtllm-serve would where no media are among them.

    Raises:
        OSError, ValueError: the tokenizer or a chat template is missing or unusable.
    """
    style = style_of(directory, TextCodec(directory.tokenizer))
    plain = load_template(directory.processor, style, directory.tokenizer)
    with_tools = load_tools_template(directory.processor, style, directory.tokenizer) or plain

    def write(turns: Sequence[Turn], tools: Sequence[Tool]) -> str:
        return (with_tools if tools else plain).render(turns, tools)

    return write
