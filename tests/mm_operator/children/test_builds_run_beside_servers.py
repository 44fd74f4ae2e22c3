"""A claim that one node may attach: Jobs wish to run where the pods are that hold it."""

from typing import Any

from mm_api import labels
from support.cases import cases
from support.models import snapshot_of
from support.staged import children, inspected, planned


def claims(**fields: str) -> dict[str, Any]:
    made = {name: {"persistentVolumeClaim": {"claimName": claim}} for name, claim in fields.items()}
    return {
        **({"model": {"source": made["source"]}} if "source" in made else {}),
        **({"build": {"store": made["store"]}} if "store" in made else {}),
    }


BUCKET = {"build": {"store": {"s3": {"bucket": "engines"}}}}
OWN_AFFINITY = {"build": {"affinity": {"podAffinity": {}}}}
BOTH = claims(source="models", store="engines")


def wishes(job: dict[str, Any]) -> list[dict[str, Any]]:
    affinity = job["spec"]["template"]["spec"].get("affinity", {})
    found = affinity.get("podAffinity", {}).get("preferredDuringSchedulingIgnoredDuringExecution")
    return [one["podAffinityTerm"]["labelSelector"] for one in found or ()]


def of(*models: str) -> dict[str, Any]:
    """Return the selector of the serving pods of models; without any: of the namespace."""
    servers = {
        labels.APP_NAME: labels.APP_NAME_VALUE,
        labels.APP_COMPONENT: labels.Component.SERVER,
    }
    chosen = {"key": labels.MODEL, "operator": "In", "values": list(models)}
    return {"matchLabels": servers, **({"matchExpressions": [chosen]} if models else {})}


@cases(
    "changes held expected",
    {
        "the-operators-claim": ({}, {}, [of()]),
        "claims-that-any-node-may-attach": (BOTH, {}, []),
        "a-bucket": (BUCKET, {}, []),
        "an-own-affinity": (OWN_AFFINITY, {}, []),
        "the-users-store": (BOTH, {"engines": ("b", "llava")}, [of("b", "llava")]),
        "source-and-store": (BOTH, {"models": ("c",), "engines": ("b",)}, [of("b", "c")]),
        "source-and-operators": (claims(source="models"), {"models": ("c",)}, [of("c"), of()]),
        "no-model-serves-from-the-source": (BOTH, {"models": ()}, []),
        "an-own-affinity-and-claim": (
            {**BOTH, "build": {**BOTH["build"], **OWN_AFFINITY["build"]}},
            {"engines": ("b",)},
            [],
        ),
    },
)
def test_builds_wish_to_be_beside_servers(
    changes: dict[str, Any], held: dict[str, tuple[str, ...]], expected: list[dict[str, Any]]
) -> None:
    """It is a wish and no rule: a GPU of another node may be needed more."""
    job = children(inspected(changes, claims_of_one_node=held))["Job/build"]
    assert expected == wishes(job)


def test_inspections_follow_the_source() -> None:
    """A checkpoint on a claim that another model serves from is read where that one runs."""
    held = {"models": ("c",), "engines": ("b",)}
    job = children(planned(snapshot_of(BOTH, claims_of_one_node=held)))["Job/inspect"]
    assert [of("c")] == wishes(job)
