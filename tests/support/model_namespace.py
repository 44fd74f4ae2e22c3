"""A namespace of a real API server, driven through kubectl as a user drives it."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
import yaml

from mm_devcluster.cluster import ClusterInfo
from support.clusters import kubectl, namespace, read
from support.definition import install_definition
from support.eventually import eventually


@dataclass(frozen=True)
class Api:
    """A namespace of the control plane that tests may fill."""

    cluster: ClusterInfo
    namespace: str

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        return kubectl(self.cluster, "-n", self.namespace, *arguments, stdin=stdin, check=check)

    def apply(self, document: dict[str, Any], *options: str) -> str:
        """Apply a document as a user does; return what kubectl says, errors included."""
        return self.kubectl("apply", "-f", "-", *options, stdin=yaml.dump(document), check=False)

    def refusals(self, documents: Iterable[dict[str, Any]]) -> list[str]:
        """Return what the API server has against each document; empty: it takes it."""
        named = [
            {**one, "metadata": {"name": f"judged-{number}"}}
            for number, one in enumerate(documents)
        ]
        text = yaml.safe_dump_all(named)
        answer = self.kubectl("apply", "-f", "-", "--dry-run=server", stdin=text, check=False)
        taken = {int(one) for one in re.findall(r"/judged-(\d+) created", answer)}
        _, *refused = re.split(r'"judged-(\d+)" is invalid: ', answer)
        said = dict(zip(map(int, refused[::2]), refused[1::2], strict=True))
        assert {*taken, *said} == {*range(len(named))}, answer
        return [said.get(number, "") for number in range(len(named))]

    def read(self, *arguments: str) -> dict[str, Any]:
        return read(self.cluster, "-n", self.namespace, *arguments)

    def condition(self, model: str, kind: str) -> dict[str, Any]:
        """Return a condition of a model; empty before it is written."""
        found = (self.read("mmm", model).get("status") or {}).get("conditions", ())
        return next((dict(one) for one in found if one["type"] == kind), {})

    def reaches(self, model: str, kind: str, expected: str, words: str = "") -> dict[str, Any]:
        """Wait until a condition has a status or reason, and words in its message; return it."""

        def reached() -> dict[str, Any]:
            found = self.condition(model, kind)
            if expected not in {found.get("status"), found.get("reason")}:
                return {}
            return found if words in found["message"] else {}

        return eventually(reached, showing=lambda: self.condition(model, kind))

    def names(self, kind: str, *chosen: str) -> list[str]:
        return sorted(one["metadata"]["name"] for one in self.read(kind, *chosen)["items"])


@pytest.fixture
def api(control_plane: ClusterInfo) -> Iterator[Api]:
    install_definition(control_plane)
    with namespace(control_plane, f"test-{uuid4().hex[:8]}") as name:
        yield Api(control_plane, name)
