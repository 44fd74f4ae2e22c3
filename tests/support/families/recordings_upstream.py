"""Checkpoints that read recordings, in transformers; and the requests that the gateway sends."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from PIL import Image

from mm_api.families import FAMILIES
from mm_runtime.base.chat_template import Media, Turn
from mm_runtime.gateway.prompts.loading import load_chat_prompt
from support.families.expected import ANSWER
from support.families.pipeline import Pipeline
from support.families.recordings import RATE
from support.families.words import END

QUESTION = "what is it ?"
Samples = NDArray[np.float32]


class Upstream:
    """A checkpoint in transformers, with its processor."""

    def __init__(self, family: str, folder: Path) -> None:
        """Load both."""
        kind: Any = getattr(transformers, FAMILIES[family].transformers_class)
        self.model: Any = kind.from_pretrained(folder).eval()
        self.processor: Any = transformers.AutoProcessor.from_pretrained(folder)

    def prompt(self, recordings: int, images: int = 0) -> str:
        """Return the prompt of a question about recordings, and images before them."""
        parts: list[dict[str, Any]] = [{"type": "image"}] * images + [
            {"type": "audio"}
        ] * recordings
        messages = [{"role": "user", "content": [*parts, {"type": "text", "text": QUESTION}]}]
        template = self.processor.chat_template or self.processor.tokenizer.chat_template
        text: str = self.processor.apply_chat_template(
            messages, chat_template=template, add_generation_prompt=True, tokenize=False
        )
        return text

    def tensors(self, recordings: list[Samples], images: Sequence[Image.Image] = ()) -> Any:
        """Return what the class is given."""
        text = self.prompt(len(recordings), len(images))
        if not recordings and not images:
            return self.processor.tokenizer(text, return_tensors="pt")
        given: dict[str, Any] = {"images": [*images]} if images else {}
        if recordings:
            given |= {"audio": recordings, "sampling_rate": RATE}
        return self.processor(text=text, return_tensors="pt", **given)

    def answer(self, recordings: list[Samples], images: Sequence[Image.Image] = ()) -> list[int]:
        """Return the tokens of the answer about recordings and images."""
        given = self.tensors(recordings, images)
        return self.generated(given)

    def generated(self, given: Any, **options: Any) -> list[int]:
        """Return the tokens of the answer to what the processor made."""
        with torch.no_grad():
            found = self.model.generate(**given, max_new_tokens=ANSWER, do_sample=False, **options)
        answer: list[int] = found[0, given["input_ids"].shape[1] :].tolist()
        return answer[: answer.index(END)] if END in answer else answer


def answered(pipeline: Pipeline, recordings: list[Samples]) -> list[int]:
    """Return the answer to a conversation, as the gateway writes it."""
    return pipeline.query(prompt_of(pipeline, len(recordings)), **tensors_of(recordings))


def prompt_of(pipeline: Pipeline, recordings: int, images: int = 0) -> str:
    """Return the prompt of a question about recordings, as the gateway writes it."""
    chat = load_chat_prompt(pipeline.directory, pipeline.preprocessor.codec)
    turn = Turn("user", (*[Media.IMAGE] * images, *[Media.AUDIO] * recordings, QUESTION))
    return chat.template.render([turn])


def tensors_of(recordings: list[Samples]) -> dict[str, Any]:
    """Return the inputs of recordings that clients of Triton send."""
    if not recordings:
        return {}
    lengths = np.array([[len(one) for one in recordings]], dtype=np.int32)
    padded = np.zeros((1, len(recordings), lengths.max()), dtype=np.float32)
    for row, one in zip(padded[0], recordings, strict=True):
        row[: len(one)] = one
    return {"audio_samples_input": padded, "audio_lengths_input": lengths}
