"""How much of a node's disk a comparison takes that fetches its checkpoint."""

from typing import Final

from mm_api.documents.model_facts import ModelFacts

_BESIDE_BYTES: Final = 1 << 30
"""Tokenizer and configuration (tokenizer.json of 262,144 tokens, as Gemma 3's, has 33 MB), scratch
files and logs: chosen with room."""


def disk_bytes(facts: ModelFacts, *, engine: int | None) -> int:
    """Return what the pod may take.

    Args:
        facts: of the checkpoint. Pickles stay beside the safetensors that are made of them.
        engine: bytes of the engine where the pod pulls it from a bucket, 0 where a claim holds it;
            None: not recorded. An engine is no larger than its weights then.
    """
    copies = 2 if facts.weight_format == "pickle" else 1
    pulled = facts.weight_bytes if engine is None else engine
    return copies * facts.weight_bytes + pulled + _BESIDE_BYTES
