"""What a model is calibrated with: texts that are part of this package, the same everywhere.

Of FP8 only the ranges of activations and of the key-value cache follow from them, one number a
layer; the weights' own scales follow from the weights. hf_ptq.py of Model-Optimizer takes 512 texts
of the Hub; a build reaches no network, and its digests must not change with a data set.
"""

from importlib.resources import files

TEXTS = "calibration.txt"

LONGEST = 512
"""Tokens of a text that are used, as hf_ptq.py's --calib_seq has it."""


def read_texts() -> list[str]:
    """Return the texts: blocks of the file, separated by empty lines."""
    content = files(__package__).joinpath(TEXTS).read_text(encoding="utf-8")
    return [block.replace("\n", " ") for block in content.strip().split("\n\n")]
