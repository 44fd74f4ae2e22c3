"""Counts of replicas in sentences."""


def replicas(count: float, kind: str = "") -> str:
    """Return for example `1 replica`, `2.4 replicas`, `3 full replicas`; two digits at least."""
    shown = f"{count:.2g}" if count < 10 else f"{count:.0f}"  # noqa: PLR2004 - then integers do
    noun = "replica" if shown == "1" else "replicas"
    return " ".join(filter(None, (shown, kind, noun)))


def verb(count: int, plural: str, singular: str = "") -> str:
    return (singular or f"{plural}s") if count == 1 else plural
