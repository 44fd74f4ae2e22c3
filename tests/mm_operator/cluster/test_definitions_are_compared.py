"""Which of two resource definitions is newer, and what an upgrade leaves of the installed one."""

import asyncio
import tomllib
from typing import TYPE_CHECKING, Any, cast

from mm_api import labels
from mm_api.v1alpha1.definition import RELEASE, definition
from mm_operator.cluster.definition import DefinitionKeeper, Installed, compared, replaced
from mm_operator.errors import ClusterError
from support.cases import cases
from support.eventually import eventually_async
from support.scripts import ROOT

if TYPE_CHECKING:
    from mm_operator.cluster.client import Client

OWN = definition()


def installed(release: str | None, digest: str = "another") -> dict[str, Any]:
    marks = {labels.DEFINITION_RELEASE: release, labels.DEFINITION_DIGEST: digest}
    return {"metadata": {"annotations": {k: v for k, v in marks.items() if v is not None}}}


@cases(
    "found expected",
    {
        "none": (None, Installed.ABSENT),
        "its-own": (OWN, Installed.CURRENT),
        "of-before-there-were-releases": ({"metadata": {}}, Installed.OLDER),
        "older": (installed("0.0.9"), Installed.OLDER),
        "another-of-the-same-release": (installed(RELEASE), Installed.OLDER),
        "newer-by-number-not-by-text": (installed("0.10.0"), Installed.NEWER),
        "no-release": (installed("9" * 40), Installed.OLDER),
        "no-number": (installed("latest"), Installed.OLDER),
    },
)
def test_releases_are_compared(found: dict[str, Any] | None, expected: Installed) -> None:
    assert compared(found, OWN) is expected


def test_an_upgrade_keeps_what_others_noted() -> None:
    """Labels, other annotations and the version that guards the write stay; the spec is ours."""
    held = {
        "metadata": {
            "name": "x",
            "resourceVersion": "7",
            "labels": {"team": "a"},
            "annotations": {"note": "b", labels.DEFINITION_RELEASE: "0.0.1"},
        },
        "spec": {"versions": []},
        "status": {"storedVersions": ["v1alpha1"]},
    }
    fresh = replaced(held, OWN)
    assert fresh["metadata"]["resourceVersion"] == "7"
    assert fresh["metadata"]["labels"] == {"team": "a"}
    assert fresh["metadata"]["annotations"] == {"note": "b", **OWN["metadata"]["annotations"]}
    assert fresh["spec"] == OWN["spec"]


class ReadOnly:
    """An API server that has an older definition and forbids to replace it."""

    async def get(self, *_where: object) -> dict[str, Any]:
        return installed("0.0.1")

    async def update(self, *_what: object) -> None:
        raise ClusterError(403, "CustomResourceDefinition", "x", "forbidden")


async def test_an_older_one_that_may_not_be_replaced_is_reported() -> None:
    outdated: list[bool] = []
    keeper = DefinitionKeeper(
        cast("Client", ReadOnly()), use="Upgrade", look_seconds=60, on_outdated=outdated.append
    )
    running = asyncio.create_task(keeper.run())
    await eventually_async(lambda: not keeper.problem())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert outdated == [True]


def test_the_release_is_that_of_the_project() -> None:
    """A release that forgot the number would never be taken for a newer one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = (ROOT / "charts" / "multimodal-operator" / "Chart.yaml").read_text()
    assert project["version"] == RELEASE
    assert f"version: {RELEASE}\n" in chart
