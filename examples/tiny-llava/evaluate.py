"""Measure a checkpoint on fresh images, split by colour-shape pairs training has seen or not.

    python examples/tiny-llava/evaluate.py examples/tiny-llava/checkpoint

An answer counts when it is right word for word. Decoding is greedy, through the checkpoint's own
processor and chat template, as `transformers` users would do it.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np
import questions
import shapes
import torch
from PIL import Image
from transformers import AutoProcessor, LlavaForConditionalGeneration

BATCH = 64
EVALUATION_SEED = 1_000_003
"""Far from the training seeds: no image is shared."""

LONGEST_ANSWER = 24


class Checkpoint:
    """A model and its processor."""

    def __init__(self, folder: Path) -> None:
        """Load both from the folder."""
        self._processor = AutoProcessor.from_pretrained(folder)
        self._processor.tokenizer.padding_side = "left"
        self._model = LlavaForConditionalGeneration.from_pretrained(folder).eval()

    def query(self, requests: list[tuple[list[Image.Image], str]]) -> list[str]:
        """Return the answers to questions that all have the same number of images."""
        prompts = [
            self._processor.apply_chat_template(
                [
                    {
                        "role": "user",
                        "content": [*[{"type": "image"}] * len(images), _text(question)],
                    }
                ],
                add_generation_prompt=True,
            )
            for images, question in requests
        ]
        images = [image for group, _ in requests for image in group]
        inputs = self._processor(
            text=prompts, images=images or None, padding=True, return_tensors="pt"
        )
        inputs.pop("token_type_ids", None)
        with torch.inference_mode():
            ids = self._model.generate(**inputs, max_new_tokens=LONGEST_ANSWER, do_sample=False)
        answers = ids[:, inputs["input_ids"].shape[1] :]
        return [
            str(text) for text in self._processor.batch_decode(answers, skip_special_tokens=True)
        ]


def _text(question: str) -> dict[str, str]:
    return {"type": "text", "text": question}


def measure(
    checkpoint: Checkpoint, pairs: tuple[tuple[str, str], ...], total: int
) -> dict[str, float]:
    """Return accuracy overall and by kind of question, one question an image."""
    rng = np.random.default_rng(EVALUATION_SEED)
    requested, right = Counter[str](), Counter[str]()
    for start in range(0, total, BATCH):
        turns, requests = [], []
        for index in range(start, min(start + BATCH, total)):
            kind = questions.KINDS[index % len(questions.KINDS)]
            several = 1 + index // len(questions.KINDS) % 4
            count = several if kind in questions.ABOUT_SEVERAL else 1
            scene = shapes.random_scene(rng, pairs, count)
            turns.append(questions.random_turn(scene, rng, kind, plain=True))
            requests.append(([shapes.draw(scene, rng)], turns[-1].question))
        for turn, answer in zip(turns, checkpoint.query(requests), strict=True):
            for name in ("all", turn.kind):
                requested[name] += 1
                right[name] += answer == turn.answer
    return {name: right[name] / requested[name] for name in ("all", *questions.KINDS)}


def measure_two_images(checkpoint: Checkpoint, requests: int) -> float:
    """Return the accuracy of questions on the first or second of two images."""
    rng = np.random.default_rng(EVALUATION_SEED)
    right = 0
    for start in range(0, requests, BATCH):
        turns, batch = [], []
        for _ in range(start, min(start + BATCH, requests)):
            scenes = (
                shapes.random_scene(rng, shapes.SEEN_PAIRS, 1),
                shapes.random_scene(rng, shapes.SEEN_PAIRS, 1),
            )
            turns.append(questions.pair_turn(scenes, rng))
            batch.append(([shapes.draw(scene, rng) for scene in scenes], turns[-1].question))
        answers = checkpoint.query(batch)
        right += sum(turn.answer == answer for turn, answer in zip(turns, answers, strict=True))
    return right / requests


def main() -> None:
    """Parse the command line, measure, print JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--images", type=int, default=768, help="for each split (default 768)")
    options = parser.parse_args()
    checkpoint = Checkpoint(options.checkpoint)
    report = {
        "images": options.images,
        "seen": measure(checkpoint, shapes.SEEN_PAIRS, options.images),
        "unseen": measure(checkpoint, shapes.UNSEEN_PAIRS, options.images),
        "two images": measure_two_images(checkpoint, options.images),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
