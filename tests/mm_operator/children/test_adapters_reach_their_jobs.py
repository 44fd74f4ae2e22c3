"""LoRA adapters in Jobs: their addresses, their claims, and what cannot be reached."""

from itertools import pairwise
from typing import Any

from mm_operator.plan.adapters import access_problem
from mm_operator.plan.inspection import inputs_hash
from support.cases import cases
from support.models import spec_of
from support.staged import children, fresh

OWN = {"persistentVolumeClaim": {"claimName": "checkpoints", "path": "adapters/one.tar.gz"}}
OTHER = {"persistentVolumeClaim": {"claimName": "tuned", "path": "two"}}
HUB = {"huggingFace": {"repo": "another/three", "revision": "v1"}}
GUARDED = {"huggingFace": {"repo": "a/b", "tokenSecretRef": {"name": "token", "key": "token"}}}
BUCKET = {"s3": {"bucket": "adapters", "prefix": "four"}}
CHECKPOINT = {"persistentVolumeClaim": {"claimName": "checkpoints", "path": "llava"}}


def spec(*sources: dict[str, Any]) -> dict[str, Any]:
    lora = [{"name": f"a{number}", "source": source} for number, source in enumerate(sources)]
    return {"model": {"source": CHECKPOINT}, "engine": {"backend": "TensorRT", "lora": lora}}


def test_the_inspection_reads_every_adapter() -> None:
    job = children(fresh(spec(OWN, OTHER, HUB, BUCKET)))["Job/inspect"]
    pod = job["spec"]["template"]["spec"]
    arguments = pod["containers"][0]["args"]
    given = [after for word, after in pairwise(arguments) if word == "--adapter"]
    claims = {
        one["persistentVolumeClaim"]["claimName"]: one["persistentVolumeClaim"]["readOnly"]
        for one in pod["volumes"]
        if "persistentVolumeClaim" in one
    }
    mounts = {one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}

    assert given == [
        "a0=/mnt/source/adapters/one.tar.gz",
        "a1=/mnt/adapters/tuned/two",
        "a2=hf://another/three@v1",
        "a3=s3://adapters/four",
    ]
    assert claims == {"checkpoints": True, "tuned": True}
    assert {"/mnt/source", "/mnt/adapters/tuned"} <= mounts


def test_other_adapters_are_inspected_again() -> None:
    """A changed list is another inspection; no list at all is the one of before."""
    assert inputs_hash(spec_of(spec(OWN)), 0) != inputs_hash(spec_of(spec(OTHER)), 0)
    assert inputs_hash(spec_of(spec()), 0) == inputs_hash(
        spec_of({"model": {"source": CHECKPOINT}}), 0
    )


@cases(
    "sources words",
    {
        "two-secrets": ((HUB, GUARDED), "different endpoints, secrets or caches"),
        "cache": (
            ({"huggingFace": {"repo": "a/b", "cache": {"claimName": "c"}}},),
            "cache is mounted where the checkpoint's is",
        ),
    },
)
def test_a_job_has_one_set_of_credentials(sources: tuple[dict[str, Any], ...], words: str) -> None:
    """Sources that would need two sets are refused before anything runs."""
    problem = access_problem(spec_of(spec(*sources)))
    assert problem is not None
    assert words in str(problem)
    assert access_problem(spec_of(spec(OWN, HUB, BUCKET))) is None
