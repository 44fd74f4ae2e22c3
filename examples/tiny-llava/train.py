"""Train the tiny LLaVA model on freshly drawn images and write it in Hugging Face format.

    python examples/tiny-llava/train.py --out examples/tiny-llava/checkpoint

Minutes on two cores, so it is a command of its own and no part of any set-up. The same seed and
library versions give the same images and questions; weights differ in the last bits by machine.
"""

import argparse
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import questions
import shapes
import torch
import untrained
from numpy.typing import NDArray
from PIL import Image
from transformers import PreTrainedModel, PreTrainedTokenizerFast

IGNORED = -100
"""Label of a position that gives no loss: everything but the answers."""

BATCH = 64
PEAK_LEARNING_RATE = 1e-3
WARMUP_STEPS = 100
COUNT_WEIGHTS = (0.6, 0.16, 0.12, 0.12)
"""Shares of images with one to four things."""

PAIR_SHARE = 0.08
NO_IMAGE_SHARE = 0.03
UNNAMED_SHARE = 0.15
"""Things without a word for their colour, and as many without one for their shape."""

UNKNOWN_WORD_SHARE = 0.01
SYSTEM_SHARE = 0.05
SECOND_TURN_SHARE = 0.1

logger = logging.getLogger("train")


@dataclass(frozen=True)
class Example:
    """Token ids with labels, and the images the `<image>` tokens stand for."""

    ids: list[int]
    labels: list[int]
    images: list[Image.Image]


class Examples:
    """Draws training conversations without end."""

    def __init__(self, seed: int) -> None:
        """Seed every choice."""
        self._rng = np.random.default_rng(seed)
        self.tokenizer = untrained.build_tokenizer()
        ids = self.tokenizer.get_vocab()
        self.pad, self._unknown, self._begin, self._end, self._image = (
            ids[token] for token in untrained.SPECIAL_TOKENS
        )

    def __iter__(self) -> Iterator[Example]:
        """Yield examples for ever."""
        while True:
            yield self._draw()

    def _draw(self) -> Example:
        rng = self._rng
        kind = rng.random()
        if kind < NO_IMAGE_SHARE:
            return self._converse([questions.turn_without_image(rng)], [])
        if kind < NO_IMAGE_SHARE + PAIR_SHARE:
            scenes = (
                shapes.random_scene(rng, shapes.SEEN_PAIRS, 1),
                shapes.random_scene(rng, shapes.SEEN_PAIRS, 1),
            )
            turns = [questions.pair_turn(scenes, rng) for _ in range(int(rng.integers(1, 3)))]
            return self._converse(turns, [shapes.draw(scene, rng) for scene in scenes])
        count = 1 + int(rng.choice(len(COUNT_WEIGHTS), p=COUNT_WEIGHTS))
        scene = shapes.random_scene(rng, shapes.SEEN_PAIRS, count, unnamed_share=UNNAMED_SHARE)
        turns = [
            questions.random_turn(scene, rng)
            for _ in range(1 + int(rng.random() < SECOND_TURN_SHARE))
        ]
        return self._converse(turns, [shapes.draw(scene, rng)])

    def _converse(self, turns: list[questions.Turn], images: list[Image.Image]) -> Example:
        """Lay out the turns as the chat template does; only answers are learnt."""
        rng = self._rng
        ids, labels = [self._begin], [IGNORED]

        def add(text: str, *, learn: bool) -> None:
            new = self.tokenizer(text, add_special_tokens=False).input_ids
            if learn:
                new = [*new, self._end]
                ids.extend(new)
                labels.extend(new)
            else:
                ids.extend(
                    self._unknown if i != self._image and rng.random() < UNKNOWN_WORD_SHARE else i
                    for i in new
                )
                labels.extend([IGNORED] * len(new))

        if rng.random() < SYSTEM_SHARE:
            add(questions.SYSTEM[int(rng.integers(len(questions.SYSTEM)))], learn=False)
        for index, turn in enumerate(turns):
            placeholders = untrained.IMAGE * len(images) if index == 0 else ""
            add(f"USER: {placeholders} {turn.question} ASSISTANT:", learn=False)
            add(turn.answer, learn=True)
        return self._expand(ids, labels, images)

    def _expand(self, ids: list[int], labels: list[int], images: list[Image.Image]) -> Example:
        """Repeat each `<image>` token once per feature, as the processor does."""
        repeat = [untrained.FEATURES_PER_IMAGE if i == self._image else 1 for i in ids]
        return Example(
            [i for i, times in zip(ids, repeat, strict=True) for _ in range(times)],
            [i for i, times in zip(labels, repeat, strict=True) for _ in range(times)],
            images,
        )


def collate(
    batch: list[Example], pad: int, normalise: "Normalise", rng: np.random.Generator
) -> dict[str, torch.Tensor]:
    """Return the model's inputs, padded on the right; pixel values carry a little noise."""
    length = max(len(example.ids) for example in batch)
    ids = np.full((len(batch), length), pad)
    labels = np.full((len(batch), length), IGNORED)
    mask = np.zeros((len(batch), length), dtype=np.int64)
    for row, example in enumerate(batch):
        ids[row, : len(example.ids)] = example.ids
        labels[row, : len(example.ids)] = example.labels
        mask[row, : len(example.ids)] = 1
    pixels = normalise([image for example in batch for image in example.images])
    noise = rng.normal(0, 0.03, size=pixels.shape).astype(np.float32)
    return {
        "input_ids": torch.from_numpy(ids),
        "labels": torch.from_numpy(labels),
        "attention_mask": torch.from_numpy(mask),
        "pixel_values": torch.from_numpy(pixels + noise),
    }


class Normalise:
    """The processor's image part, for many images of one size at a time."""

    def __init__(self) -> None:
        """Take size, mean and deviation from the processor that is saved."""
        images = untrained.build_processor(untrained.build_tokenizer()).image_processor
        self._mean = np.asarray(images.image_mean, dtype=np.float32)
        self._std = np.asarray(images.image_std, dtype=np.float32)

    def __call__(self, images: list[Image.Image]) -> NDArray[np.float32]:
        """Return float32 [images, 3, side, side]."""
        side = (untrained.IMAGE_SIDE, untrained.IMAGE_SIDE)
        stacked = np.stack([np.asarray(i.resize(side, Image.Resampling.BICUBIC)) for i in images])
        scaled = (stacked.astype(np.float32) / 255 - self._mean) / self._std
        return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))


def train(out: Path, *, steps: int, seed: int, threads: int, device: str) -> None:
    """Train for `steps` batches and save model, tokenizer and processor to `out`."""
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    rng = np.random.default_rng(seed + 1)
    source = Examples(seed)
    examples, normalise = iter(source), Normalise()
    model = untrained.build_model(source.tokenizer)
    untrained.spread_positions(model)
    model.to(device)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_LEARNING_RATE, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, PEAK_LEARNING_RATE, total_steps=steps, pct_start=WARMUP_STEPS / steps
    )
    started = time.monotonic()
    for step in range(1, steps + 1):
        batch = [next(examples) for _ in range(BATCH)]
        inputs = collate(batch, source.pad, normalise, rng)
        loss = model(**{name: tensor.to(device) for name, tensor in inputs.items()}).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            elapsed = time.monotonic() - started
            logger.info("step %d of %d  loss %.4f  %.0f s", step, steps, loss.item(), elapsed)
    save(model.cpu(), source.tokenizer, out)


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Write config, weights, tokenizer and processor files to `out`."""
    model.eval()
    model.save_pretrained(out)
    for weights in out.glob("*.safetensors"):
        weights.chmod(0o644)  # saved for the owner alone; pods read them as another user
    processor = untrained.build_processor(tokenizer)
    processor.save_pretrained(out)
    # Newer processors keep this inside processor_config.json; other readers still require the file.
    processor.image_processor.save_pretrained(out)


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the checkpoint")
    parser.add_argument("--steps", type=int, default=3000, help="batches of 64 (default 3000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default 2)")
    parser.add_argument("--device", default="cpu", help="torch device (default cpu)")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    train(
        options.out,
        steps=options.steps,
        seed=options.seed,
        threads=options.threads,
        device=options.device,
    )


if __name__ == "__main__":
    main()
