"""PURE: what clients may call a model: its name, or that of one of its LoRA adapters.

As other servers of open models do, an adapter is a model of its own that has the base model as its
`parent`. `BASE:ADAPTER` names it too, and it alone where an adapter is called like its base model.
`model` means the base model, as programs call the one model of DashInfer-VLM's server.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mm_api.contract import MODEL_ALIAS
from mm_runtime.gateway.errors import UnknownModelError


@dataclass(frozen=True, slots=True)
class ModelNames:
    """The names that one gateway answers to."""

    base: str
    adapters: Mapping[str, int]
    """Name -> id, as the engine takes it."""

    def adapter(self, requested: str) -> int | None:
        """Return the id of the adapter that a name means, None for the base model.

        Raises:
            UnknownModelError: nothing here has that name.
        """
        if requested == self.base:
            return None
        found = self.adapters.get(requested.removeprefix(f"{self.base}:"))
        if found is None and requested == MODEL_ALIAS:
            return None
        if found is None:
            served = ", ".join(map(repr, self.parents()))
            raise UnknownModelError(
                f"The model {requested[:100]!r} does not exist here; "
                f"this endpoint serves {served}.",
                param="model",
                code="model_not_found",
            )
        return found

    def parents(self) -> dict[str, str | None]:
        """Return every listed name, and of adapters the model that they change."""
        listed = {
            f"{self.base}:{name}" if name == self.base else name: self.base
            for name in self.adapters
        }
        return {self.base: None, **listed}
