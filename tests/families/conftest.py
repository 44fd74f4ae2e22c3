"""`pytest tests/families` runs what holds for every family: facts, plan, answers, commands.

Those tests stay where their packages' are, so nothing is copied and `make test` runs nothing twice:
among all tests this folder only compares the list with the files. Given alone, it collects them.
"""

from pathlib import Path

import pytest

from support.families.shown_by import PATHS
from support.scripts import ROOT

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Let the tests of families be collected, where this folder is all that was given."""
    if {config.invocation_params.dir / arg for arg in config.args} == {HERE}:
        config.args += [str(ROOT / path) for paths in PATHS.values() for path in paths]
