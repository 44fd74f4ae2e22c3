"""ROUGE-1 and ROUGE-L, as TensorRT-LLM's summarize.py and run.py of encoder-decoders print them.

F-measures over words in lower case (Lin, 2004), without stemming.
"""

import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"\w+")


def rouge1(expected: str, answered: str) -> float:
    """Return the F-measure of the words that two texts share, 0 to 1."""
    one, other = _words(expected), _words(answered)
    shared = sum((Counter(one) & Counter(other)).values())
    return _f_measure(shared, len(one), len(other))


def rouge_l(expected: str, answered: str) -> float:
    """Return the F-measure of the longest common sequence of words, 0 to 1."""
    one, other = _words(expected), _words(answered)
    return _f_measure(_longest_common(one, other), len(one), len(other))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _f_measure(shared: int, expected: int, answered: int) -> float:
    if not expected and not answered:
        return 1.0
    return 2 * shared / (expected + answered)


def _longest_common(one: Sequence[str], other: Sequence[str]) -> int:
    lengths = [0] * (len(other) + 1)
    for word in one:
        before = 0
        for at, their in enumerate(other, 1):
            above = lengths[at]
            lengths[at] = before + 1 if word == their else max(above, lengths[at - 1])
            before = above
    return lengths[-1]
