"""Placeholders of media in prompts, where a checkpoint's files name them and not its family."""

from dataclasses import replace
from pathlib import Path

from mm_api.families.known_classes import CLASSES
from mm_api.families.prompt import PLACEHOLDER, PromptStyle, prompt_style
from mm_runtime.base.chat_template_files import read_object


def own_style(prompt: PromptStyle, config: Path, processor: Path, tokenizer: Path) -> PromptStyle:
    """Return how prompts of a class are written whose own processor reads the images."""
    if prompt.audio:
        return replace(
            prompt,
            audio=_mark(tokenizer, "audio_token") or prompt.audio,
            placeholder=_mark(tokenizer, "image_token") or prompt.placeholder,
        )
    said = read_object(processor / "processor_config.json").get("image_token")
    text = said.get("content") if isinstance(said, dict) else said
    if not isinstance(text, str) or not text:
        known = CLASSES.get(str(read_object(config).get("model_type")), {}).get("placeholder")
        text = _mark(tokenizer, "image_token") or known or PLACEHOLDER
    return prompt_style(text)


def _mark(tokenizer: Path, name: str) -> str:
    """Return the placeholder of a medium that the tokenizer names; empty: it names none."""
    config = read_object(tokenizer / "tokenizer_config.json")
    extra = config.get("extra_special_tokens")
    said = (config.get(name), extra.get(name) if isinstance(extra, dict) else None)
    texts = (one.get("content") if isinstance(one, dict) else one for one in said)
    return next((one for one in texts if isinstance(one, str) and one), "")
