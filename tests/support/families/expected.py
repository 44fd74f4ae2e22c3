"""What transformers itself answers: its own processors and `generate`, in one process."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image

from mm_api.families import FAMILIES
from support.families.images import CASES
from support.families.words import END

ANSWER = 16
KINDS = {
    family: FAMILIES[family].transformers_class
    for family, case in CASES.items()
    if case.image_processor
}
"""Families that transformers has a class for."""


class Upstream:
    """One checkpoint in transformers."""

    def __init__(self, family: str, folder: Path) -> None:
        self.case = CASES[family]
        assert self.case.image_processor is not None
        self.model: Any = getattr(transformers, KINDS[family]).from_pretrained(folder).eval()
        processor = getattr(transformers, self.case.image_processor)
        self.processor: Any = processor.from_pretrained(folder)

    def images(self, images: list[Image.Image]) -> dict[str, torch.Tensor]:
        """Return the tensors of images, pixels rounded to float16 as the guide's clients send."""
        nested = [images] if self.case.by_conversation else images
        settings = self.case.image_settings
        found = dict(self.processor(nested, return_tensors="pt", **settings))
        for count in ("num_tiles", "num_patches", "num_crops"):
            found.pop(count, None)
        found["pixel_values"] = found["pixel_values"].half().float()
        return found

    def inputs(self, images: list[Image.Image], ids: list[int], token: int) -> dict[str, Any]:
        given = self.images(images) if images else {}
        return given | (self.case.more(self, ids, token, given) if images else {})

    def answer(self, ids: list[int], **inputs: Any) -> list[int]:
        prompt = torch.tensor([ids])
        with torch.no_grad():
            found = self.model.generate(
                input_ids=prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=ANSWER,
                do_sample=False,
                **inputs,
            )[0].tolist()
        answer = found[len(ids) :]
        return answer[: answer.index(END)] if END in answer else answer


def noise_image(width: int, height: int, seed: int) -> Image.Image:
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (height, width, 3))
    pixels[..., 0] = np.linspace(0, 255, width)[None]
    return Image.fromarray(pixels.astype(np.uint8))
