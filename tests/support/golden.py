"""Golden files: what was decided once to be right, compared word for word.

`pytest --update-golden` writes them again; read the difference before it is committed.
"""

from pathlib import Path

import pytest
import yaml


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files instead of comparing"
    )


class _Lines(yaml.SafeDumper):
    """Writes a text of several lines as these lines."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Lines.add_representer(str, _text)


class Golden:
    """Compares a text with the file of one test folder."""

    def __init__(self, folder: Path, *, update: bool) -> None:
        self._folder = folder
        self._update = update

    def check(self, name: str, actual: str) -> None:
        path = self._folder / name
        if self._update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8")
        expected = path.read_text(encoding="utf-8") if path.exists() else "(no golden file yet)"
        assert expected == actual

    def check_yaml(self, name: str, found: object) -> None:
        """Assert that a YAML file holds what was found: a mapping of cases to results, mostly."""
        self.check(name, yaml.dump(found, Dumper=_Lines, sort_keys=False, width=100))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Return the golden files beside the test's own file, in the folder `golden`."""
    update = bool(request.config.getoption("--update-golden"))
    return Golden(Path(request.path).parent / "golden", update=update)
