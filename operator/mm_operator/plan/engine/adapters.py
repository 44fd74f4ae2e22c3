"""LoRA adapters of an engine: which they are, and whether the inspection knows them."""

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


def check_inspected(spec: MultimodalModelSpec, facts: ModelFacts) -> None:
    """Refuse facts that do not tell the spec's adapters: whether they fit is not known.

    Raises:
        SpecError: what to inspect them with.
    """
    known = [one.name for one in facts.lora.adapters] if facts.lora else []
    if spec.engine.lora and known != [one.name for one in spec.engine.lora]:
        raise SpecError(
            "InvalidSpec",
            "sizes and modules of the adapters are not known: give --facts what `mm-runtime "
            "inspect --source ... --adapter NAME=SOURCE` prints (the operator does it by itself)",
            PATH,
        )
