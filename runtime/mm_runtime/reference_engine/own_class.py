"""Checkpoints of any class from image and text to text: transformers runs all of it.

The class's own `generate` prepares a request and hands over before its first pass; from there on
each pass is prepared by the class as `generate` would, and the engine chooses the tokens.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image

from mm_api.families import FAMILIES
from mm_api.families.known_classes import CLASSES
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.language_model import load_full_model
from mm_runtime.reference_engine.unbatched import UnbatchedModel
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.request import RawImages, Request

_NOT_READ = frozenset({"input_ids", "attention_mask", "labels"})
"""Among a processor's tensors: the engine has the ids, sees all of a prompt, and trains nothing."""


@dataclass
class _State:
    ids: torch.Tensor
    """[1, all tokens so far]."""

    settings: Any
    values: dict[str, Any]
    """What the class needs for its next pass, its cache among it."""

    outputs: Any = None
    """Outputs of the last pass, which `values` is brought up to date with."""


class OwnClassModel(UnbatchedModel):
    """A checkpoint of any class, with its processor."""

    def __init__(self, checkpoint: Checkpoint, processor: Path) -> None:
        """Load both; `processor`: folder of the small files."""
        super().__init__(checkpoint.slots, checkpoint.device)
        kind = getattr(transformers, FAMILIES[checkpoint.family].transformers_class)
        dtype = getattr(torch, checkpoint.dtype)
        self._model: Any = load_full_model(kind, checkpoint.folder, dtype).to(checkpoint.device)
        config = self._model.config
        # A part of a checkpoint has none in the table: the folder names that of all of it.
        name = CLASSES.get(config.model_type, {}).get("processor", "AutoProcessor")
        # Of some classes the published tokenizer_config.json names a wrong tokenizer, which
        # transformers corrects by the configuration; the folder of the small files has none.
        self._processor: Any = getattr(transformers, name).from_pretrained(
            processor, local_files_only=True, config=config
        )
        self.vocabulary_size = int(self._model.config.get_text_config(decoder=True).vocab_size)
        self._known = int(self._model.get_input_embeddings().weight.shape[0])

    def complete(self, request: Request) -> Request:
        """Return the request with the ids and tensors that its processor makes of its prompt.

        Raises:
            RequestError: the processor refuses the prompt or its images.
        """
        raw_images = request.raw_images
        if raw_images is None:
            raise RequestError("prompt_text is missing: this model reads texts, and makes the ids")
        images = _images(raw_images)
        begin = getattr(self._processor.tokenizer, "bos_token", None)
        begins = begin is not None and raw_images.text.startswith(begin)
        options: dict[str, Any] = {"text": [raw_images.text], "return_tensors": "pt"}
        options |= {"add_special_tokens": False} if begins else {}
        try:
            if images:
                made = dict(self._processor(**options, images=images))
            else:  # some processors want an image; of a text they make what its tokenizer does
                made = dict(self._processor.tokenizer(**options))
        except Exception as error:
            raise RequestError(
                f"the checkpoint's processor refuses the request: {error}"
            ) from error
        ids = tuple(made["input_ids"][0].tolist())
        tensors = {name: one for name, one in made.items() if name not in _NOT_READ}
        return replace(request, ids=ids, tensors=tensors, raw_images=None)

    def check(self, request: Request) -> None:
        if request.table is not None or request.features is not None:
            raise RequestError("prompt_embedding_table: this model reads images, no features")
        if not all(0 <= token < self._known for token in request.ids):
            raise RequestError(f"prompt ids must be 0 to {self._known - 1}")

    def cut(self, slot: int, start: int, rows: int) -> int:
        """Return all rows: images are read with the prompt that holds them."""
        del rows
        return int(self._slots[slot].ids.shape[1]) - start

    def open(self, request: Request) -> _State:
        """Let the class prepare the request as `generate` does before its first pass."""
        ids = torch.tensor([request.ids], device=self.device)
        tensors = {name: self._placed(one) for name, one in request.tensors.items()}
        state: _State = self._model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            num_beams=1,
            max_new_tokens=1,
            use_cache=True,
            custom_generate=_handed_over,
            **tensors,
        )
        return state

    def _placed(self, value: Any) -> Any:
        """Return a processor's value where the model computes; pixels in the model's type."""
        if isinstance(value, list):
            return [self._placed(one) for one in value]
        if not isinstance(value, torch.Tensor):
            return value
        dtype = self._model.dtype if value.is_floating_point() else None
        return value.to(self.device, dtype)

    def step(self, state: _State, ids: torch.Tensor, start: int) -> torch.Tensor:
        """Run the prompt, or one token after it."""
        model = self._model
        if start == 0:
            state.outputs = model._prefill(state.ids, state.settings, state.values)  # noqa: SLF001 (the first half of `generate`)
        else:
            state.ids = torch.cat((state.ids, ids), dim=1)
            given = model.prepare_inputs_for_generation(
                state.ids, next_sequence_length=ids.shape[1], **state.values
            )
            state.outputs = model(**given, return_dict=True)
        state.values = model._update_model_kwargs_for_generation(  # noqa: SLF001 (as above)
            state.outputs, state.values, is_encoder_decoder=False
        )
        logits: torch.Tensor = state.outputs.logits[0]
        state.outputs = None
        return logits[-ids.shape[1] :]


def _handed_over(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any = None,
    stopping_criteria: Any = None,
    generation_config: Any = None,
    **values: Any,
) -> _State:
    del model, logits_processor, stopping_criteria  # the engine chooses and ends
    return _State(input_ids, generation_config, values)


def _images(raw_images: RawImages) -> list[Image.Image]:
    if raw_images.pixels is None or raw_images.sizes is None:
        return []
    cut = (
        image[:high, :wide]
        for image, (high, wide) in zip(raw_images.pixels, raw_images.sizes.tolist(), strict=True)
    )
    return [Image.fromarray(one.copy(), "RGB") for one in cut]
