"""Answers of a Qwen2-VL by transformers, greedily: what a server of the checkpoint would say.

Prompt and pixels are made by its own tokenizer and image processor, not by this project's code, and
put together as transformers' Qwen2VLProcessor does, which needs torchvision for videos.
"""

import base64
import io
import os
import site
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from placeholders import Prompt

PACKAGES = "MM_RECORDED_PACKAGES"
"""Folder with transformers and torch; unset: answers are fixed sentences."""

MARK, WAITING = "<|image_pad|>", "\0"


def open_generator(folder: Path) -> "Generator | None":
    packages = os.environ.get(PACKAGES)
    if not packages:
        return None
    site.addsitedir(packages)
    return Generator(folder)


class Generator:
    """One checkpoint on the processor."""

    def __init__(self, folder: Path) -> None:
        import torch  # noqa: PLC0415 (of the folder of packages)
        import transformers  # noqa: PLC0415

        torch.set_num_threads(1)
        self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
        self._pixels: Any = transformers.Qwen2VLImageProcessorPil.from_pretrained(folder)
        kind = transformers.Qwen2VLForConditionalGeneration
        self._model: Any = kind.from_pretrained(folder, dtype=torch.float32).eval()

    def tokens(
        self, prompt: Prompt, images: list[str], limit: int
    ) -> Iterator[tuple[str, float | None]]:
        """Yield what each token adds to the text, and its log probability; an end token is last."""
        import torch  # noqa: PLC0415 (of the folder of packages)

        inputs = self._inputs(prompt, [_opened(url) for url in images])
        with torch.inference_mode():
            made = self._model.generate(
                **inputs,
                max_new_tokens=limit,
                do_sample=False,
                output_logits=True,
                return_dict_in_generate=True,
            )
        ids = made.sequences[0, inputs["input_ids"].shape[1] :].tolist()
        ends = self._model.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        before = ""
        for number, (token, logits) in enumerate(zip(ids, made.logits, strict=True), 1):
            if token in ends:
                break
            text = self._tokenizer.decode(ids[:number], skip_special_tokens=True)
            yield text.removeprefix(before), logits[0].log_softmax(-1)[token].item()
            before = text
        else:
            return
        yield "", None

    def _inputs(self, prompt: Prompt, images: list[Any]) -> dict[str, Any]:
        """Return the inputs of `generate`: each image's mark as often as it has features."""
        own = {} if prompt.template is None else {"chat_template": prompt.template}
        text = self._tokenizer.apply_chat_template(
            prompt.messages, add_generation_prompt=True, tokenize=False, **own, **prompt.variables
        )
        given = self._pixels(images=images, return_tensors="pt") if images else {}
        for grid in given["image_grid_thw"] if images else ():
            rows = int(grid.prod()) // self._pixels.merge_size**2
            text = text.replace(MARK, WAITING * rows, 1)
        ids = self._tokenizer(
            text.replace(WAITING, MARK), return_tensors="pt", add_special_tokens=False
        )["input_ids"]
        kinds = (ids == self._model.config.image_token_id).long()
        return {"input_ids": ids, "mm_token_type_ids": kinds, **given}


def _opened(url: str) -> Any:
    from PIL import Image  # noqa: PLC0415 (of the folder of packages)

    content = base64.b64decode(url.partition(",")[2])
    return Image.open(io.BytesIO(content)).convert("RGB")
