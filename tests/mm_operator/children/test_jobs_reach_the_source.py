"""Jobs and pods reach checkpoints, adapters and engines; secrets are named and never read."""

import json
from typing import Any

from mm_operator.plan.adapters import access_problem
from mm_operator.plan.inspection import inputs_hash
from support.cases import cases
from support.models import spec_of
from support.staged import children, inspected

COMMIT = "0123456789abcdef0123456789abcdef01234567"

HUB: dict[str, Any] = {
    "repo": "acme/llava",
    "revision": "v1",
    "endpoint": "https://hub.example.org",
    "tokenSecretRef": {"name": "hub", "key": "read"},
}


def model_of(**source: Any) -> dict[str, Any]:
    return {"model": {"source": {"persistentVolumeClaim": None, **source}}}


@cases(
    "source", {"hub": {"huggingFace": {"repo": "acme/llava"}}, "s3": {"s3": {"bucket": "weights"}}}
)
def test_public_sources_need_no_secret(source: dict[str, Any]) -> None:
    commit = COMMIT if "huggingFace" in source else None
    job = children(inspected(model_of(**source), commit=commit))["Job/build"]
    assert not [word for word in ("HF_", "AWS_", "secretKeyRef") if word in str(job)]


def test_plan_of_an_engine_says_nothing_of_secrets() -> None:
    objects = children(inspected(model_of(huggingFace=HUB), commit=COMMIT))
    assert "tokenSecretRef" not in json.dumps(objects["ConfigMap/build"])


OWN = {"persistentVolumeClaim": {"claimName": "checkpoints", "path": "adapters/one.tar.gz"}}
OTHER = {"persistentVolumeClaim": {"claimName": "tuned", "path": "two"}}
HUB_ADAPTERS = {"huggingFace": {"repo": "another/three", "revision": "v1"}}
GUARDED = {"huggingFace": {"repo": "a/b", "tokenSecretRef": {"name": "token", "key": "token"}}}
BUCKET_ADAPTERS = {"s3": {"bucket": "adapters", "prefix": "four"}}
CHECKPOINT = {"persistentVolumeClaim": {"claimName": "checkpoints", "path": "llava"}}


def spec(*sources: dict[str, Any]) -> dict[str, Any]:
    lora = [{"name": f"a{number}", "source": source} for number, source in enumerate(sources)]
    return {"model": {"source": CHECKPOINT}, "engine": {"backend": "TensorRT", "lora": lora}}


def test_other_adapters_are_inspected_again() -> None:
    assert inputs_hash(spec_of(spec(OWN)), 0) != inputs_hash(spec_of(spec(OTHER)), 0)
    assert inputs_hash(spec_of(spec()), 0) == inputs_hash(
        spec_of({"model": {"source": CHECKPOINT}}), 0
    )


def test_a_job_has_one_set_of_credentials() -> None:
    problem = access_problem(spec_of(spec(HUB_ADAPTERS, GUARDED)))
    assert problem is not None
    assert "different endpoints or secrets" in str(problem)
    assert access_problem(spec_of(spec(OWN, HUB_ADAPTERS, BUCKET_ADAPTERS))) is None
