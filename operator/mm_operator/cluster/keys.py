"""What is reconciled: the address of one MultimodalModel."""

from typing import NamedTuple


class Key(NamedTuple):
    """Namespace and name of a MultimodalModel."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
