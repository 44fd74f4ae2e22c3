"""LoRA adapters of an engine: which they are, and whether the inspection knows them."""

from collections.abc import Iterator

from mm_api.documents.lora_adapter import LoraAdapter
from mm_api.documents.model_facts import ModelFacts
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.addresses import adapter_addresses
from mm_operator.errors import SpecError

PATH = "spec.engine.lora"


def planned_adapters(spec: MultimodalModelSpec, facts: ModelFacts) -> list[LoraAdapter]:
    """Return the adapters with their uids: their places in the list of the spec."""
    where = adapter_addresses(spec)
    return [
        LoraAdapter(name=one.name, uid=uid, source=where[one.name], source_digest=one.source_digest)
        for uid, one in enumerate(facts.lora.adapters if facts.lora and where else ())
    ]


def check_inspected(names: tuple[str, ...], facts: ModelFacts) -> Iterator[SpecError]:
    """Yield an error where the inspection does not know these adapters, nor whether they fit."""
    known = tuple(one.name for one in facts.lora.adapters) if facts.lora else ()
    if names and known != names:
        yield SpecError(
            "LoraNotInspected",
            "sizes and modules of the adapters are not known: give --facts what `mm-runtime "
            "inspect --source ... --adapter NAME=SOURCE` prints (the operator does so)",
            PATH,
        )
