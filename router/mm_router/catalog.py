"""PURE: what clients may call the models behind one address.

A model is `NAME` where no other namespace has one of that name, and `NAMESPACE/NAME` always. LoRA
adapters are models of their own, as at the gateway: `ADAPTER`, or `NAME:ADAPTER`. The name of a
split is that of several models, and comes before a model's `NAME`. Where there is one model, it is
`model` too, as at the gateway.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from mm_api.contract import MODEL_ALIAS
from mm_edge.errors import UnknownModelError
from mm_router.demand import UNPLANNED, ModelSize
from mm_router.splits import Part, Split

_SHOWN = 20
"""Names that a refusal lists; `/v1/models` has all."""


@dataclass(frozen=True, slots=True, order=True)
class Canary:
    """A new revision beside the stable one: its share in percent, and what is tolerated of it."""

    revision: str
    step: int
    weight: int
    first_text: int = 0
    inter_token: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Model:
    """One MultimodalModel; `created` in seconds since 1970, no `modalities`: not known.

    `canary`: None: every replica is of one revision.
    `may_start`: a replica is to be expected where none is ready; `obstacle`: the reason of the
    condition that says otherwise, empty where none does. `start_seconds`: measured, or 0.
    """

    namespace: str
    name: str
    adapters: tuple[str, ...] = ()
    created: int = 0
    size: ModelSize = UNPLANNED
    modalities: tuple[str, ...] = ()
    may_start: bool = False
    obstacle: str = ""
    start_seconds: float = 0.0
    canary: Canary | None = None

    @property
    def key(self) -> tuple[str, str]:
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
    """What a request's `model` means; `served`: the name by which its gateway knows it."""

    model: Model
    served: str


@dataclass(frozen=True, slots=True)
class Listed:
    """One entry of `/v1/models`; `parent`: the base model of an adapter."""

    id: str
    created: int
    modalities: tuple[str, ...] = ()
    parent: str | None = None


class Catalog:
    """The models that there are, at one moment."""

    def __init__(self, models: Iterable[Model] = (), splits: Iterable[Split] = ()) -> None:
        self._models = sorted(models)
        self._splits = {split.name: split for split in splits}
        self._named: dict[str, list[Model]] = {}
        for model in self._models:
            for name in model.names():
                for one in (name, f"{model.namespace}/{name}"):
                    self._named.setdefault(one, []).append(model)

    def __iter__(self) -> Iterator[Model]:
        return iter(self._models)

    def split(self, requested: str) -> list[tuple[Part, Target]]:
        """Return what the name of a split may mean now; nothing: it is the name of none.

        Raises:
            UnknownModelError: none of the models that have a weight exists.
        """
        split = self._splits.get(requested)
        if split is None:
            return []
        there = self._there(split)
        if not any(part.weight for part, _ in there):
            names = ", ".join(repr(part.model) for part in split.models if part.weight)
            message = f"The model {requested!r} stands for {names}, and none of them exists."
            raise UnknownModelError(message, param="model", code="model_not_found")
        return there

    def unknown(self) -> Iterator[str]:
        """Say what splits name that is not there."""
        for split in self._splits.values():
            there = {part for part, _ in self._there(split)}
            for part in split.models:
                if part not in there:
                    yield f"the split {split.name!r} names {part.model!r}, which is no model"

    def resolve(self, requested: str) -> Target:
        """Return the model that a name of no split means; UnknownModelError: none, or several."""
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
        """Yield every model and adapter by the shortest name that means it, and every split."""
        for split in self._splits.values():
            if there := self._there(split):
                models = [target.model for _, target in there]
                created = max(model.created for model in models)
                yield Listed(split.name, created, _common(models))
        for model in self._models:
            base = self._shortest(model, model.name)
            yield Listed(base, model.created, model.modalities)
            for adapter in model.adapters:
                name = f"{model.name}:{adapter}" if adapter == model.name else adapter
                shortest = self._shortest(model, name)
                yield Listed(shortest, model.created, model.modalities, base)

    def entry(self, requested: str) -> Listed:
        """Return the entry of one name; UnknownModelError: there is none, or there are several."""
        listed = list(self.listed())
        if self.split(requested):
            return next(one for one in listed if one.id == requested)
        target = self.resolve(requested)
        for one in listed:
            if one.id not in self._splits and self.resolve(one.id) == target:
                return one
        # A name that is understood, but not the one that is listed.
        parent = None if target.served == target.model.name else target.model.name
        return Listed(requested, target.model.created, target.model.modalities, parent)

    def _there(self, split: Split) -> list[tuple[Part, Target]]:
        there = []
        for part in split.models:
            found = self._find(part.model)
            if len(found) == 1:
                there.append((part, Target(found[0], _served(part.model, found[0]))))
        return there

    def _shortest(self, model: Model, name: str) -> str:
        full = name if name.startswith(f"{model.name}:") else f"{model.name}:{name}"
        own: tuple[str, ...] = (name,) if name == model.name else (name, full)
        names: tuple[str, ...] = (*own, *(f"{model.namespace}/{one}" for one in own))
        own_names = (one for one in names if one not in self._splits)
        return next(one for one in own_names if self._find(one) == [model])

    def _find(self, name: str) -> list[Model]:
        alone = self._models if name == MODEL_ALIAS and len(self._models) == 1 else []
        found = self._named.get(name, alone)
        return [one for one in found if one.name == _served(name, one)] or found


def _common(models: Iterable[Model]) -> tuple[str, ...]:
    first, *others = [model.modalities for model in models]
    return tuple(one for one in first if all(one in other for other in others))


def _served(requested: str, model: Model) -> str:
    if requested == MODEL_ALIAS and MODEL_ALIAS not in model.names():
        return model.name
    return requested.removeprefix(f"{model.namespace}/")
