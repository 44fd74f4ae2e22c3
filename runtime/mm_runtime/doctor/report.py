"""What the doctor found: one finding a check, as text and as JSON."""

from enum import StrEnum
from typing import Literal

from mm_api.base import Document

_NAME_WIDTH = 17
_OUTCOME_WIDTH = 12


class Outcome(StrEnum):
    """What became of a check."""

    PASS = "pass"  # noqa: S105 (a word)
    FAIL = "fail"
    NOT_NEEDED = "not needed"


class Finding(Document):
    """One check."""

    name: str
    concerns: Literal["image", "node"]
    outcome: Outcome
    found: str
    fix: str = ""
    """What makes it pass; empty unless it failed."""


class DoctorReport(Document):
    """All checks for some purposes."""

    format_version: Literal[1] = 1
    purposes: list[str]
    backend: str
    findings: list[Finding]

    @property
    def failures(self) -> list[Finding]:
        return [one for one in self.findings if one.outcome is Outcome.FAIL]

    @property
    def image_failures(self) -> list[Finding]:
        """Return the failed checks of the image; those of the node differ from pod to pod."""
        return [one for one in self.failures if one.concerns == "image"]

    def text(self) -> str:
        """Return a table, with the fix below each failure."""
        lines = [f"for {', '.join(self.purposes)} with backend {self.backend}"]
        for one in self.findings:
            name, outcome = one.name.ljust(_NAME_WIDTH), one.outcome.ljust(_OUTCOME_WIDTH)
            lines.append(f"{name}{outcome}{one.found}".rstrip())
            if one.fix:
                lines.append(f"{' ' * (_NAME_WIDTH + _OUTCOME_WIDTH)}fix: {one.fix}")
        count = len(self.failures)
        lines.append(f"{count} of {len(self.findings)} checks failed" if count else "usable")
        return "\n".join(lines)


def sentence(failures: list[Finding]) -> str:
    """Return failures as one text for a condition: what is wrong, and what to do."""
    return "; ".join(f"{one.name}: {one.found} ({one.fix})" for one in failures)
