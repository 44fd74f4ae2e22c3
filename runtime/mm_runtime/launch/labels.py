"""One label set for every series of a pod: `model` is the MultimodalModel, on all of them. Pure.

Triton calls its own models by the label `model` too; they become `triton_model`, so that its series
can be summed and joined with ours.
"""

import re

OWN, TRITONS = "model", "triton_model"

_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?(?P<rest>\s.*)$")
"""A line of the text format: what follows the last brace is value and time."""

_TRITONS_MODEL = re.compile(r'(?P<before>^|,)\s*model="')
"""Inside a label's value a quote has a backslash before it, so this is a label's beginning."""


def one_label_set(text: str, model: str) -> str:
    """Return a Prometheus text whose every sample says whose it is."""
    return "".join(f"{_labelled(line, model)}\n" for line in text.splitlines())


def _labelled(line: str, model: str) -> str:
    sample = None if line.startswith("#") else _SAMPLE.match(line)
    if sample is None:
        return line
    theirs = _TRITONS_MODEL.sub(rf'\g<before>{TRITONS}="', (sample["labels"] or "").rstrip(", "))
    labels = ",".join(filter(None, (theirs, f'{OWN}="{model}"')))
    return f"{sample['name']}{{{labels}}}{sample['rest']}"
