"""How one engine's conversations are written, read from its files."""

from mm_runtime.gateway.prompts.conversation import ChatPrompt, control_pattern
from mm_runtime.gateway.prompts.templates import load_template
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.prompts.styles import style_of
from mm_runtime.serving.prompts.tokens import TextCodec


def load_chat_prompt(directory: EngineDirectory, codec: TextCodec) -> ChatPrompt:
    """Return how the model's conversations are written."""
    style = style_of(directory, codec)
    template = load_template(directory.processor, style, directory.tokenizer)
    dialect = template.dialect
    if dialect is not None and dialect.opening in codec.control_tokens:
        dialect = dialect.with_control(codec.id_of(dialect.opening))
    return ChatPrompt(
        template, style, codec.begin_token or "", control_pattern(codec.control_tokens), dialect
    )
