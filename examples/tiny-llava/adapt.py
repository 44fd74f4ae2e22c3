"""Train the LoRA adapter `colors`: queried what is in an image, it names colours and nothing else.

    python examples/tiny-llava/adapt.py --out examples/tiny-llava/adapters/colors

It changes two matrices of each layer of the language model: requests of one batch may use it or
not. A minute on two cores.
"""

import argparse
import logging
from pathlib import Path

import numpy as np
import questions
import shapes
import torch
from peft import LoraConfig, get_peft_model
from train import Example, Examples, Normalise, collate
from transformers import LlavaForConditionalGeneration

CHECKPOINT = Path(__file__).parent / "checkpoint"
BATCH = 32
LEARNING_RATE = 5e-3
RANK = 4
MODULES = r".*language_model.*\.(q_proj|v_proj)"

logger = logging.getLogger("adapt")


class ColourExamples(Examples):
    """Captions that are lists of colours."""

    def __init__(self, seed: int) -> None:
        """Seed every choice."""
        super().__init__(seed)
        self._choices = np.random.default_rng(seed + 1)

    def _draw(self) -> Example:
        rng = self._choices
        scene = shapes.random_scene(rng, shapes.SEEN_PAIRS, int(rng.integers(1, 4)))
        requested = questions.CAPTION[int(rng.integers(len(questions.CAPTION)))]
        answer = " and ".join(thing.colour for thing in scene)
        turn = questions.Turn("caption", requested, answer)
        return self._converse([turn], [shapes.draw(scene, rng)])


def adapt(out: Path, *, steps: int, seed: int) -> None:
    """Train for `steps` batches and save the adapter as peft does."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    source, normalise = ColourExamples(seed), Normalise()
    examples = iter(source)
    complete = LlavaForConditionalGeneration.from_pretrained(CHECKPOINT)
    complete.name_or_path = "tiny-llava"  # peft writes it down, and a folder is this machine's
    config = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=MODULES)
    model = get_peft_model(complete, config)
    model.train()
    optimizer = torch.optim.AdamW(
        [weight for weight in model.parameters() if weight.requires_grad], lr=LEARNING_RATE
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    for step in range(1, steps + 1):
        batch = [next(examples) for _ in range(BATCH)]
        loss = model(**collate(batch, source.pad, normalise, rng)).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            logger.info("step %d of %d  loss %.4f", step, steps, loss.item())
    model.save_pretrained(out)
    (out / "README.md").unlink(missing_ok=True)  # peft's form, with nothing filled in
    for file in out.iterdir():
        file.chmod(0o644)  # saved for the owner alone; pods read them as another user


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the adapter")
    parser.add_argument("--steps", type=int, default=160, help="batches of 32 (default 160)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    adapt(options.out, steps=options.steps, seed=options.seed)


if __name__ == "__main__":
    main()
