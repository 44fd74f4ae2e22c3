"""How an engine's prompts are written: as its family does, or as its checkpoint's files say."""

from dataclasses import replace

from mm_api.families import FAMILIES
from mm_api.families.prompt import PromptStyle
from mm_runtime.base.chat_template_files import find_chat_template
from mm_runtime.base.placeholders import own_style
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.prompts.tokens import TextCodec
from mm_runtime.serving.prompts.writers import PromptWriter


def style_of(engine: EngineDirectory, codec: TextCodec) -> PromptStyle:
    """Return how prompts are written; an encoder-decoder, whose prompt is the text, has none."""
    family = FAMILIES[engine.facts.family]
    if family.prompt is None:
        raise ValueError(f"{family.name} has no style of prompts: its text is the prompt")
    if family.has_tower:
        return family.prompt
    style = own_style(family.prompt, engine.llm / "config.json", engine.processor, engine.tokenizer)
    return style if style.audio else replace(style, opening=_opening(engine, codec, style))


def _opening(engine: EngineDirectory, codec: TextCodec, style: PromptStyle) -> str:
    """Return the control token that conversations begin with; empty: the begin token or none."""
    if find_chat_template(engine.processor, engine.tokenizer) is None:
        return ""
    writer = PromptWriter.from_folder(engine.processor, codec.begin_token, style, engine.tokenizer)
    try:
        written = writer.write("-", 0)
    except RequestError:  # it wants an image, or a system's message
        return ""
    found = [one for one in codec.control_tokens if written.startswith(one)]
    return max(found, key=len, default="")
