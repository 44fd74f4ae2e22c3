"""LoRA adapters beside the weights: each row of a pass uses its own, or none.

peft holds the matrices in the layers that they change. A row without an adapter, and every row of
a model without adapters, gets exactly what the checkpoint's own layer computes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakSet

from safetensors.torch import load_file

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.adapters.check import read_config
from mm_runtime.adapters.files import WEIGHTS
from mm_runtime.adapters.layout import place_of

BASE = "__base__"
"""peft's name for the model without an adapter."""

Adapter = int | None
"""The id of an adapter; None: the base model."""


@dataclass(frozen=True, slots=True)
class AdapterFolder:
    """One adapter of an engine, as peft saves it."""

    uid: int
    name: str
    folder: Path
    facts: ModelFacts
    """Facts of the checkpoint it was made for."""


class Adapters:
    """All adapters of one model. Not thread-safe, as the model itself."""

    def __init__(self, stacks: Mapping[str, Any], folders: Sequence[AdapterFolder]) -> None:
        """Put the adapters' matrices into the layers that they change.

        Args:
            stacks: llm, or encoder and decoder -> the module that has `layers`.
            folders: were checked when the engine was built.

        Raises:
            OSError, ValueError, PermanentError: files are missing or not understood, or a stack has
                no layer that they name.
        """
        self._stacks = dict(stacks)
        self._held: dict[str, Any] = {}
        """Stack -> peft's model around it, once an adapter has changed it."""

        self._hooked: WeakSet[Any] = WeakSet()
        self._names: list[str] = []
        """One a row of the next pass."""

        for one in folders:
            self._add(one)

    def _add(self, adapter: AdapterFolder) -> None:
        for engine in self._stacks:
            if tensors := matrices(engine, adapter):
                config = _config(adapter, tensors)
                self._inject(engine, str(adapter.uid), config, tensors, adapter.name)

    def aim(self, rows: Sequence[Adapter]) -> None:
        self._names = [BASE if uid is None else str(uid) for uid in rows]

    def _inject(
        self, engine: str, name: str, config: Any, tensors: Mapping[str, Any], called: str
    ) -> None:
        # Four seconds of imports, which engines without adapters avoid.
        from peft import LoraModel, set_peft_model_state_dict  # noqa: PLC0415
        from peft.tuners.lora import LoraLayer  # noqa: PLC0415

        stack, held = self._stacks[engine], self._held.get(engine)
        if held is None:
            self._held[engine] = LoraModel(stack, config, name)
        else:
            held.peft_config[name] = config
            held.inject_adapter(stack, name)
        left: Any = set_peft_model_state_dict(stack, dict(tensors), adapter_name=name)
        if left.unexpected_keys:
            raise ValueError(
                f"LoRA adapter {called}: the {engine} has no {left.unexpected_keys[0]}"
            )
        layer: Any = LoraLayer
        for module in stack.modules():
            if isinstance(module, layer) and module not in self._hooked:
                self._hooked.add(module)
                module.register_forward_pre_hook(self._add_names, with_kwargs=True)

    def _add_names(
        self, _: Any, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Give a layer the adapter of each of its rows.

        Some layers see all positions of a row as rows of their own (OPT's perceptron).
        """
        each = len(inputs[0]) // len(self._names)
        return inputs, {**named, "adapter_names": [one for one in self._names for _ in range(each)]}


def matrices(engine: str, adapter: AdapterFolder) -> dict[str, Any]:
    """Return the matrices for one stack by the names that they have in it."""
    found = {}
    for name, tensor in load_file(adapter.folder / WEIGHTS).items():
        place = place_of(name, adapter.facts)
        if place.engine == engine:
            found[f"{place.path}.lora_{place.side}.weight"] = tensor
    return found


def _config(adapter: AdapterFolder, tensors: Mapping[str, Any]) -> Any:
    """Return peft's configuration for exactly the modules that there are matrices for."""
    from peft import LoraConfig  # noqa: PLC0415 (see above)

    settings = read_config(adapter.name, adapter.folder)
    alpha: Any = settings.alpha  # peft's declaration says int, its arithmetic takes what files hold
    return LoraConfig(
        r=settings.rank,
        lora_alpha=alpha,
        use_rslora=settings.root,
        target_modules=sorted({name.partition(".lora_")[0] for name in tensors}),
        init_lora_weights=False,
        inference_mode=True,
    )
