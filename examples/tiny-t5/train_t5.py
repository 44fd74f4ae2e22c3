"""Train a tiny T5 that translates sentences about coloured shapes, and write it with its score.

    python examples/tiny-t5/train_t5.py --out examples/tiny-t5/checkpoint

Minutes of one core. The same seed and library versions give the same sentences;
weights differ in the last bits by machine.
"""

import argparse
import json
import logging
import time
from pathlib import Path

import numpy as np
import phrases
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

PAD, END, UNKNOWN = range(3)
SPECIAL = ("<pad>", "</s>", "<unk>")
IGNORED = -100
BATCH = 128
PEAK_LEARNING_RATE = 3e-3
WARMUP_SHARE = 0.1
ANSWER_TOKENS = 24
JUDGED = 500

logger = logging.getLogger("train")


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of complete words that ends each text, as T5's does."""
    vocabulary = {word: at for at, word in enumerate((*SPECIAL, *phrases.words()))}
    found = Tokenizer(models.WordLevel(vocabulary, "<unk>"))
    # German nouns keep their capitals: they are written, never read.
    found.normalizer = normalizers.Lowercase()
    found.pre_tokenizer = pre_tokenizers.Whitespace()
    found.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", END)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=found,
        pad_token=SPECIAL[PAD],
        eos_token=SPECIAL[END],
        unk_token=SPECIAL[UNKNOWN],
    )


def build_model(vocabulary: int) -> T5ForConditionalGeneration:
    """Return an untrained model of about 200,000 parameters."""
    config = T5Config(
        vocab_size=vocabulary,
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        decoder_start_token_id=PAD,
        eos_token_id=END,
        pad_token_id=PAD,
    )
    return T5ForConditionalGeneration(config)


class Translator:
    """Ids of both languages."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        """Take the words' ids."""
        self.tokenizer = tokenizer
        self._ids = tokenizer.get_vocab()

    def read(self, english: str) -> list[int]:
        """Return what the encoder reads."""
        ids: list[int] = self.tokenizer(phrases.PREFIX + english).input_ids
        return ids

    def written(self, german: str) -> list[int]:
        """Return what the decoder shall write."""
        return [*(self._ids[word] for word in german.split()), END]

    def batch(self, pairs: list[phrases.Pair]) -> dict[str, torch.Tensor]:
        """Return the model's inputs, padded on the right."""
        ids = _padded([self.read(pair.english) for pair in pairs], PAD)
        labels = _padded([self.written(pair.german) for pair in pairs], IGNORED)
        return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": labels}


def _padded(rows: list[list[int]], filler: int) -> torch.Tensor:
    length = max(map(len, rows))
    return torch.tensor([row + [filler] * (length - len(row)) for row in rows])


def train(out: Path, *, steps: int, seed: int, threads: int) -> None:
    """Train for `steps` batches, save, and say how often the model is right."""
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    rng = np.random.default_rng(seed)
    translator = Translator(build_tokenizer())
    model = build_model(len(translator.tokenizer))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_LEARNING_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, PEAK_LEARNING_RATE, total_steps=steps, pct_start=WARMUP_SHARE
    )
    started = time.monotonic()
    for step in range(1, steps + 1):
        loss = model(**translator.batch([phrases.draw(rng) for _ in range(BATCH)])).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            elapsed = time.monotonic() - started
            logger.info("step %d of %d  loss %.4f  %.0f s", step, steps, loss.item(), elapsed)
    model.eval()
    model.save_pretrained(out)
    translator.tokenizer.save_pretrained(out)
    for weights in out.glob("*.safetensors"):
        weights.chmod(0o644)  # saved for the owner alone; pods read them as another user
    score = {
        "seen": accuracy(model, translator, seed + 1, held_out=False),
        "heldOut": accuracy(model, translator, seed + 2, held_out=True),
    }
    (out.parent / "score.json").write_text(json.dumps(score, indent=1) + "\n")
    logger.info("%s", score)


@torch.inference_mode()
def accuracy(
    model: T5ForConditionalGeneration, translator: Translator, seed: int, *, held_out: bool
) -> float:
    """Return the share of fresh sentences that are translated word for word."""
    rng = np.random.default_rng(seed)
    pairs = [phrases.draw(rng, held_out=held_out) for _ in range(JUDGED)]
    inputs = translator.batch(pairs)
    del inputs["labels"]
    ids = model.generate(**inputs, max_new_tokens=ANSWER_TOKENS, do_sample=False)
    found = translator.tokenizer.batch_decode(ids, skip_special_tokens=True)
    return sum(text == pair.german for text, pair in zip(found, pairs, strict=True)) / JUDGED


def main() -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the checkpoint")
    parser.add_argument("--steps", type=int, default=1500, help="batches of 128 (default 1500)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default 2)")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    train(options.out, steps=options.steps, seed=options.seed, threads=options.threads)


if __name__ == "__main__":
    main()
