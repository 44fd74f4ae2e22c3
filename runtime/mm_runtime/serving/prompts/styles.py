"""How an engine's prompts are written: as its family does, or as its checkpoint's files say."""

from dataclasses import replace

from mm_api.families import FAMILIES
from mm_api.families.family import ImageLayout
from mm_api.families.known_classes import CLASSES
from mm_api.families.prompt import PLACEHOLDER, PromptStyle, prompt_style
from mm_runtime.base.chat_template_files import find_chat_template, read_object
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.prompts.tokens import TextCodec
from mm_runtime.serving.prompts.writers import PromptWriter


def style_of(engine: EngineDirectory, codec: TextCodec) -> PromptStyle:
    """Return how prompts are written.

    Raises:
        ValueError: an encoder-decoder, whose prompt is the text.
    """
    family = FAMILIES[engine.facts.family]
    if family.prompt is None:
        raise ValueError(f"{family.name} has no style of prompts: its text is the prompt")
    if engine.checkpoint is not None and family.pytorch and family.pytorch.prompt:
        return family.pytorch.prompt
    vision = engine.facts.vision
    if vision is not None and vision.scales:
        return replace(family.prompt, alone="")  # no line of text follows tiles that are joined
    if family.image_layout is not ImageLayout.OWN:
        return family.prompt
    if family.prompt.audio:
        return replace(
            family.prompt,
            audio=_mark(engine, "audio_token") or family.prompt.audio,
            placeholder=_mark(engine, "image_token") or family.prompt.placeholder,
        )
    placeholder = _placeholder(engine)
    return prompt_style(placeholder, _opening(engine, codec, prompt_style(placeholder)))


def _placeholder(engine: EngineDirectory) -> str:
    """Return what stands for an image: as processor, tokenizer or class say, in this order."""
    kind = read_object(engine.llm / "config.json").get("model_type")
    said = read_object(engine.processor / "processor_config.json").get("image_token")
    text = said.get("content") if isinstance(said, dict) else said
    if isinstance(text, str) and text:
        return text
    known = CLASSES.get(str(kind), {}).get("placeholder")
    return _mark(engine, "image_token") or known or PLACEHOLDER


def _mark(engine: EngineDirectory, name: str) -> str:
    """Return what stands for a medium, as the tokenizer says it; empty: it does not."""
    tokenizer = read_object(engine.tokenizer / "tokenizer_config.json")
    extra = tokenizer.get("extra_special_tokens")
    said = (tokenizer.get(name), extra.get(name) if isinstance(extra, dict) else None)
    texts = (one.get("content") if isinstance(one, dict) else one for one in said)
    return next((one for one in texts if isinstance(one, str) and one), "")


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
