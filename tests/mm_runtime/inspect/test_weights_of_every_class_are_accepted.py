"""Headers as transformers' own classes save them are never refused."""

import pytest
import torch
import transformers

from mm_api.families import FAMILIES
from mm_api.families.stored_weights import check_stored
from mm_runtime.inspect.checkpoint import InspectOptions, describe
from support.model_configs import MODELS, folder_of
from support.representatives import others_are_slow

UNKNOWN = frozenset({"vila", "nmt", "qwen2-5-omni"})
"""Families whose published config.json is that of another program, or of more than is loaded."""


def has_class(family: str) -> bool:
    return family not in UNKNOWN and bool(FAMILIES[family].architectures)


@pytest.mark.parametrize(
    "family", others_are_slow(filter(has_class, MODELS), "bart", "llava", "mllama", "qwen2-vl")
)
def test_weights_of_every_class_are_accepted(family: str) -> None:
    folder, record = folder_of(family), FAMILIES[family]
    found = describe(folder, InspectOptions())
    config = transformers.AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = getattr(transformers, record.transformers_class)(config)
    entries = {
        name: {"dtype": "BF16", "shape": list(tensor.shape)}
        for name, tensor in model.state_dict().items()
    }

    check_stored(entries, found.config, record, found.dimensions)
