"""What must not be imported before the operator serves health and metrics."""

import subprocess
import sys

import pytest

from support.tied import tied

HEAVY = {
    "kopf": "half a second; models are watched once they were listed",
    "mm_operator.handlers": "it imports kopf",
    "jsonschema": "only tools and tests check schemas",
    "numpy": "nothing in the operator computes with arrays",
}


@pytest.fixture(scope="module")
def imported() -> set[str]:
    program = "import sys, mm_operator.__main__; print(*sorted(sys.modules), sep='\\n')"
    done = subprocess.run(
        tied([sys.executable, "-c", program]),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("name", HEAVY)
def test_heavy_modules_come_later(name: str, imported: set[str]) -> None:
    assert name not in imported, HEAVY[name]


def test_the_entry_point_is_complete(imported: set[str]) -> None:
    """What the first answer needs is there: nothing was moved behind it by mistake."""
    assert {"mm_operator.assembly", "mm_operator.reconcile", "prometheus_client"} <= imported
