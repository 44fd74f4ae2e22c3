"""Checkpoints in another layout as arguments of `from_pretrained`; no code of theirs is run.

transformers renames and splits weights while it reads them. Its table of renamings is of classes,
so such checkpoints get a class of their own, whose modules are those of the family's.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from mm_api.families import FAMILIES
from mm_runtime.base.layouts import layout_in
from mm_runtime.reference_engine.all_weights import load_weights


def configuration_in(kind: Any, folder: Path) -> Any | None:
    """Return the configuration of a checkpoint in another layout; None: it is in the class's."""
    found = layout_in(folder)
    if found is None:
        return None
    layout, config = found
    return kind.config_class.from_dict(layout.config(config))


def load_other_layout(kind: Any, folder: Path, config: Any, **more: Any) -> Any:
    """Return a model of a checkpoint in another layout.

    `config`: that `configuration_in` made. `more`: arguments of `load_weights`.

    Raises:
        ValueError: the checkpoint is in the layout of the class.
        WeightsUnusableError: as `load_weights`.
    """
    found = layout_in(folder)
    if found is None:
        raise ValueError(f"{folder} is in the layout of {kind.__name__}")
    return load_weights(_reading(kind, found[0].model_type), folder, config=config, **more)


@lru_cache(maxsize=8)
def _reading(kind: Any, model_type: str) -> Any:
    """Return a class with the modules of another one, which reads a layout's names."""
    # Images of TensorRT-LLM import this module with a transformers that has neither.
    from transformers.conversion_mapping import (  # noqa: PLC0415
        register_checkpoint_conversion_mapping,
    )
    from transformers.core_model_loading import (  # noqa: PLC0415
        Chunk,
        WeightConverter,
        WeightRenaming,
    )

    layouts = (family.checkpoint.other_layout for family in FAMILIES.values())
    layout = next(one for one in layouts if one is not None and one.model_type == model_type)
    name = f"{kind.__name__}Of{model_type.title().replace('_', '')}"
    renamed = [WeightRenaming(*pair) for pair in layout.names]
    split = [
        WeightConverter(one.name, list(one.parts), operations=[Chunk(dim=0)])
        for one in layout.joined
    ]
    register_checkpoint_conversion_mapping(name, [*renamed, *split], overwrite=True)
    ignored = {"_keys_to_ignore_on_load_unexpected": list(layout.beside)}
    return type(name, (kind,), {"__module__": __name__, **ignored})
