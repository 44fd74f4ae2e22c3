"""PURE: what a server of others puts in a prompt for an image whose features are not one run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Frame:
    """One image in a prompt."""

    text: str
    """A placeholder for each run of features, among tokens of the family's own. It begins and ends
    with tokens that no text around them changes."""

    runs: tuple[int, ...]
    """Rows of the prompt table that stand at each placeholder."""
