"""PURE: what clients may call the models behind one address.

A model is `NAME` where no other namespace has one of that name, and `NAMESPACE/NAME` always. LoRA
adapters are models of their own, as at the gateway: `ADAPTER`, or `NAME:ADAPTER`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from mm_edge.errors import UnknownModelError

_SHOWN = 20
"""Names that a refusal lists; `/v1/models` has all."""


@dataclass(frozen=True, slots=True, order=True)
class Model:
    """One MultimodalModel.

    Attributes:
        created: seconds since 1970.
    """

    namespace: str
    name: str
    adapters: tuple[str, ...] = ()
    created: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    def names(self) -> Iterator[str]:
        """Yield every name that its gateway takes, once."""
        yield self.name
        for adapter in self.adapters:
            if adapter != self.name:
                yield adapter
            yield f"{self.name}:{adapter}"


@dataclass(frozen=True, slots=True)
class Target:
    """What a request's `model` means.

    Attributes:
        served: the name by which the model's gateway knows it.
    """

    model: Model
    served: str


@dataclass(frozen=True, slots=True)
class Listed:
    """One entry of `/v1/models`; `parent` is the base model of an adapter."""

    id: str
    created: int
    parent: str | None = None


class Catalog:
    """The models that there are, at one moment."""

    def __init__(self, models: Iterable[Model] = ()) -> None:
        self._models = sorted(models)
        self._named: dict[str, list[Model]] = {}
        for model in self._models:
            for name in model.names():
                for one in (name, f"{model.namespace}/{name}"):
                    self._named.setdefault(one, []).append(model)

    def __iter__(self) -> Iterator[Model]:
        return iter(self._models)

    def resolve(self, requested: str) -> Target:
        """Return the model that a name means.

        Raises:
            UnknownModelError: there is none, or there are several; the message has their names.
        """
        found = self._find(requested)
        if len(found) == 1:
            return Target(found[0], _served(requested, found[0]))
        shown = requested[:100]
        if found:
            several = found[:_SHOWN]
            names = ", ".join(repr(self._shortest(m, _served(requested, m))) for m in several)
            message = f"The model {shown!r} exists more than once. Request one of {names}."
        else:
            ids = [one.id for one in islice(self.listed(), _SHOWN + 1)]
            names = ", ".join(map(repr, ids[:_SHOWN])) or "no model yet"
            more = " and others, see /v1/models" if len(ids) > _SHOWN else ""
            message = f"The model {shown!r} does not exist; this address serves {names}{more}."
        raise UnknownModelError(message, param="model", code="model_not_found")

    def listed(self) -> Iterator[Listed]:
        """Yield every model and adapter by the shortest name that `resolve` takes."""
        for model in self._models:
            base = self._shortest(model, model.name)
            yield Listed(base, model.created)
            for adapter in model.adapters:
                name = f"{model.name}:{adapter}" if adapter == model.name else adapter
                yield Listed(self._shortest(model, name), model.created, base)

    def _shortest(self, model: Model, name: str) -> str:
        full = name if name.startswith(f"{model.name}:") else f"{model.name}:{name}"
        own: tuple[str, ...] = (name,) if name == model.name else (name, full)
        names: tuple[str, ...] = (*own, *(f"{model.namespace}/{one}" for one in own))
        return next(one for one in names if self._find(one) == [model])

    def _find(self, name: str) -> list[Model]:
        """Return the models that answer to a name; those that are called so come alone."""
        found = self._named.get(name, [])
        return [one for one in found if one.name == _served(name, one)] or found


def _served(requested: str, model: Model) -> str:
    return requested.removeprefix(f"{model.namespace}/")
