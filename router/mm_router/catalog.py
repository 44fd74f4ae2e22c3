"""PURE: what clients may call the models behind one address.

A model is `NAME` where no other namespace has one of that name, and `NAMESPACE/NAME` always. LoRA
adapters are models of their own, as at the gateway: `ADAPTER`, or `NAME:ADAPTER`. Where there is
one model, it is `model` too, as at the gateway.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from mm_api.contract import MODEL_ALIAS
from mm_edge.errors import UnknownModelError
from mm_router.demand import UNPLANNED, ModelSize

_SHOWN = 20
"""Names that a refusal lists; `/v1/models` has all."""


@dataclass(frozen=True, slots=True, order=True)
class ReplayLimits:
    """Chats of which modalities, how many in a minute, and the tokens of an answer."""

    modalities: tuple[str, ...]
    samples_per_minute: int
    max_tokens: int


@dataclass(frozen=True, slots=True, order=True)
class Canary:
    """A new revision beside the stable one: its share in percent, and what is tolerated of it.

    `replay`: None: nothing is replayed.
    """

    revision: str
    step: int
    weight: int
    first_text: int = 0
    inter_token: int = 0
    replay: ReplayLimits | None = None


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
        """Return the model that a name means; UnknownModelError: none, or several."""
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
        """Yield every model and adapter by the shortest name that means it."""
        for model in self._models:
            base = self._shortest(model, model.name)
            yield Listed(base, model.created, model.modalities)
            for adapter in model.adapters:
                name = f"{model.name}:{adapter}" if adapter == model.name else adapter
                shortest = self._shortest(model, name)
                yield Listed(shortest, model.created, model.modalities, base)

    def entry(self, requested: str) -> Listed:
        """Return the entry of one name; UnknownModelError: there is none, or there are several."""
        target = self.resolve(requested)
        for one in self.listed():
            if self.resolve(one.id) == target:
                return one
        # A name that is understood, but not the one that is listed.
        parent = None if target.served == target.model.name else target.model.name
        return Listed(requested, target.model.created, target.model.modalities, parent)

    def _shortest(self, model: Model, name: str) -> str:
        full = name if name.startswith(f"{model.name}:") else f"{model.name}:{name}"
        own: tuple[str, ...] = (name,) if name == model.name else (name, full)
        names: tuple[str, ...] = (*own, *(f"{model.namespace}/{one}" for one in own))
        return next(one for one in names if self._find(one) == [model])

    def _find(self, name: str) -> list[Model]:
        alone = self._models if name == MODEL_ALIAS and len(self._models) == 1 else []
        found = self._named.get(name, alone)
        return [one for one in found if one.name == _served(name, one)] or found


def _served(requested: str, model: Model) -> str:
    if requested == MODEL_ALIAS and MODEL_ALIAS not in model.names():
        return model.name
    return requested.removeprefix(f"{model.namespace}/")
