"""A random Gemma 3 with LoRA adapters that peft wrote, staged for trtllm-serve."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mm_runtime.adapters.facts import with_adapters
from mm_runtime.adapters.files import sourced
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.families.images import write
from support.model_configs import planned
from support.peft_adapters import write_peft
from support.staging_sites import StagingSite

FAMILY = "gemma3"
NAMES = ("french", "legal")
RANK = 4
TARGETS = r".*language_model.*\.(q_proj|v_proj)"
"""Of the language model alone: the tower has modules of these names too."""

VERSION = "1.1.0"


def write_adapters(checkpoint: Path, folder: Path, names: Sequence[str] = NAMES) -> dict[str, str]:
    """Write an adapter of each name; return name -> folder."""
    import transformers  # noqa: PLC0415 (seconds; only tests that need it pay them)

    model: Any = transformers.Gemma3ForConditionalGeneration.from_pretrained(checkpoint)
    return {
        name: str(write_peft(model, folder / name, TARGETS, rank=RANK, seed=seed))
        for seed, name in enumerate(names)
    }


def adapted_site(folder: Path, *, evaluation: bool = False) -> StagingSite:
    """Return a site whose plan is that of the inspected checkpoint and adapters."""
    source = write(FAMILY, folder / "source")
    sources = write_adapters(source, folder / "peft")
    facts = with_adapters(inspect(source, InspectOptions()), list(sources.items()))
    claim = {"persistentVolumeClaim": {"claimName": "adapters"}}
    complete = planned(
        FAMILY,
        {
            "backend": "PyTorch",
            "maxBatchSize": 4,
            "maxImagesPerRequest": 1,
            "lora": [{"name": name, "source": claim} for name in sources],
        },
        version=VERSION,
        facts=facts,
        model={},
        **({} if evaluation else {"build": {"evaluation": "Off"}}),
    )
    assert not complete.errors, complete.errors
    assert complete.build_plan
    store = folder / "store"
    store.mkdir()
    return StagingSite(source, store, sourced(complete.build_plan, sources), complete)
