"""Train the tiny Qwen2.5-VL on freshly drawn images and videos, in Hugging Face's format.

    python examples/tiny-qwen2-5-vl/train.py --out examples/tiny-qwen2-5-vl/checkpoint

Minutes on two cores, so it is a command of its own and no part of any set-up.
"""

import argparse
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import scenes
import torch
import untrained
from numpy.typing import NDArray
from untrained import MERGE, PATCH, TEMPORAL

IGNORED = -100
"""Label of a position that gives no loss: everything but the answers."""

BATCH = 32
VIDEO_SHARE = 0.4
PEAK_LEARNING_RATE = 2e-3
SECONDS_PER_GRID = 1.0
"""Two frames a second, two merged: as the gateway samples a video with fps 2."""

logger = logging.getLogger("train")


def patches(frames: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return float32 [patches, channels x 2 x 14 x 14], in the order of Qwen2VLImageProcessor."""
    scaled = (frames.astype(np.float32) / 255 - np.float32(untrained.MEAN)) / np.float32(
        untrained.STD
    )
    if len(frames) == 1:
        scaled = np.repeat(scaled, TEMPORAL, axis=0)
    pixels = scaled.transpose(0, 3, 1, 2)
    times, channels, height, width = pixels.shape
    grid = (times // TEMPORAL, height // PATCH, width // PATCH)
    cut = pixels.reshape(
        grid[0], TEMPORAL, channels, grid[1] // MERGE, MERGE, PATCH, grid[2] // MERGE, MERGE, PATCH
    )
    cut = cut.transpose(0, 3, 6, 4, 7, 2, 1, 5, 8)
    return cut.reshape(grid[0] * grid[1] * grid[2], channels * TEMPORAL * PATCH * PATCH)


class Batches:
    """Draws batches of images or of videos without end."""

    def __init__(self, seed: int) -> None:
        """Seed every choice."""
        self.rng = np.random.default_rng(seed)
        self.words = untrained.tokenizer()
        ids = self.words.get_vocab()
        self._image, self._video, self._pad = (
            ids[one] for one in (untrained.IMAGE, untrained.VIDEO, untrained.PAD)
        )

    def draw(self) -> dict[str, torch.Tensor]:
        """Return the model's inputs, padded on the right."""
        video = bool(self.rng.random() < VIDEO_SHARE)
        examples = [scenes.random_example(self.rng, video=video) for _ in range(BATCH)]
        laid = [self._laid(one) for one in examples]
        length = max(len(ids) for ids, _ in laid)
        ids = np.full((BATCH, length), self._pad)
        labels = np.full((BATCH, length), IGNORED)
        mask = np.zeros((BATCH, length), dtype=np.int64)
        for row, (own, learnt) in enumerate(laid):
            ids[row, : len(own)], labels[row, : len(own)], mask[row, : len(own)] = own, learnt, 1
        pixels = np.concatenate([patches(one.frames) for one in examples])
        pixels += self.rng.normal(0, 0.02, size=pixels.shape).astype(np.float32)
        side = scenes.SIDE // PATCH
        times = scenes.FRAMES // TEMPORAL if video else 1
        grid = torch.tensor([[times, side, side]] * BATCH)
        kind = np.where(ids == self._image, 1, np.where(ids == self._video, 2, 0))
        inputs: dict[str, Any] = {
            "input_ids": torch.from_numpy(ids),
            "labels": torch.from_numpy(labels),
            "attention_mask": torch.from_numpy(mask),
            "mm_token_type_ids": torch.from_numpy(kind),
        }
        if video:
            inputs["second_per_grid_ts"] = torch.full((BATCH,), SECONDS_PER_GRID)
            return inputs | {
                "pixel_values_videos": torch.from_numpy(pixels),
                "video_grid_thw": grid,
            }
        return inputs | {"pixel_values": torch.from_numpy(pixels), "image_grid_thw": grid}

    def _laid(self, example: scenes.Example) -> tuple[list[int], list[int]]:
        """Lay out question and answer as the chat template does; only answers are learnt."""
        mark = untrained.VIDEO if example.is_video else untrained.IMAGE
        times = scenes.FRAMES // TEMPORAL if example.is_video else 1
        rows = times * (scenes.SIDE // PATCH // MERGE) ** 2
        prompt = (
            f"<|im_start|>user\n<|vision_start|>{mark * rows}<|vision_end|>{example.question}"
            "<|im_end|>\n<|im_start|>assistant\n"
        )
        before = self.words(prompt, add_special_tokens=False).input_ids
        answer = self.words(example.answer + untrained.END, add_special_tokens=False).input_ids
        return before + answer, [IGNORED] * len(before) + answer


def train(out: Path, *, steps: int, seed: int, threads: int) -> None:
    """Train for `steps` batches and save model, tokenizer and processor to `out`."""
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    batches = Batches(seed)
    model = untrained.model(batches.words)
    logger.info("%d weights", sum(one.numel() for one in model.parameters()))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_LEARNING_RATE, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, PEAK_LEARNING_RATE, total_steps=steps, pct_start=0.1
    )
    started = time.monotonic()
    for step in range(1, steps + 1):
        loss = model(**batches.draw()).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 25 == 0:
            elapsed = time.monotonic() - started
            logger.info("step %d of %d  loss %.4f  %.0f s", step, steps, loss.item(), elapsed)
    save(model, batches, out)


def save(model: Any, batches: Batches, out: Path) -> None:
    """Write config, weights, tokenizer and processor files to `out`."""
    model.eval()
    model.save_pretrained(out)
    batches.words.save_pretrained(out)
    untrained.write_processor(out)


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1, help="more wait for each other")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    train(options.out, steps=options.steps, seed=options.seed, threads=options.threads)


if __name__ == "__main__":
    main()
