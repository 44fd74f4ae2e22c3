"""What the operator recorded of a model's checkpoint, and how it reaches it."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from mm_api.documents.model_facts import ModelFacts
from mm_api.v1alpha1.network import NetworkSpec
from mm_ctl.comparing.run import CompareFailedError
from mm_operator.plan.records import FACTS_KEY, NETWORK_KEY


def read_inspected(config: Mapping[str, Any] | None, name: str) -> tuple[ModelFacts, NetworkSpec]:
    """Return what a ConfigMap records: the facts, and the network of the Jobs that read them.

    Raises:
        CompareFailedError: it is not there or damaged, so the checkpoint's size is not known.
    """
    held = (config or {}).get("data") or {}
    try:
        facts = ModelFacts.from_json(held.get(FACTS_KEY, ""))
        network = NetworkSpec.model_validate_json(held.get(NETWORK_KEY, "{}"))
    except ValidationError as error:
        state = "is not there" if config is None else "cannot be read"
        raise CompareFailedError(
            f"the size of the checkpoint is not known: ConfigMap {name} {state}. The operator "
            "writes it after an inspection, and again where it was damaged: see mmctl status"
        ) from error
    return facts, network
