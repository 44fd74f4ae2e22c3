"""A real API server accepts the definition, fills defaults and refuses wrong values."""

import json
import re

import pytest

from mm_api.v1alpha1 import MultimodalModelSpec
from support.cases import cases
from support.clusters import kubectl
from support.model_documents import at, document
from support.model_namespace import Api
from support.scripts import ROOT

pytestmark = pytest.mark.cluster

DRY = "--dry-run=server"


@pytest.mark.slow
def test_second_manager_applies_the_same_definition(api: Api) -> None:
    """Helm after kubectl (or the other way round) meets no conflict while the file is the same."""
    answer = kubectl(
        api.cluster,
        *("apply", "--server-side", "--field-manager=another", "-f", str(ROOT / "crds")),
        check=False,
    )

    assert answer == (
        "customresourcedefinition.apiextensions.k8s.io/"
        "multimodalmodels.serving.multimodal.dev serverside-applied\n"
    )


def test_typo_is_refused(api: Api) -> None:
    answer = api.apply(document(at("engine.maxBatchSise", 4)), DRY)

    assert 'unknown field "spec.engine.maxBatchSise"' in answer


@cases(
    "path value message",
    {
        "enum": ("engine.backend", "Tensor", 'supported values: "TensorRT"'),
        "bound": ("engine.maxBatchSize", 0, "should be greater than or equal to 1"),
        "zero-duration": ("build.timeout", "0s", "should match"),
        "quantity-text": ("build.store.size", "8GB", "should match"),
        "quantity-number": ("build.store.size", -1, "should be greater than or equal to 0"),
        "image": ("build.image", "a b", "should match"),
        "in-a-list": ("runtime.tolerations", [{"effect": "Never"}], "Unsupported value"),
    },
)
def test_wrong_value_is_refused(api: Api, path: str, value: object, message: str) -> None:
    answer = api.apply(document(at(path, value)), DRY)

    assert f"spec.{path}" in answer
    assert message in answer


def test_defaults_are_those_of_the_types(api: Api) -> None:
    api.apply(document(name="defaults"))
    stored = api.read("mmm", "defaults")["spec"]
    own = MultimodalModelSpec.model_validate(document()["spec"])

    assert MultimodalModelSpec.model_validate(stored) == own
    assert (stored["replicas"], stored["engine"]["maxBatchSize"]) == (1, 8)


@cases(
    "sizes",
    {
        "from-the-default-to-the-claims": (None, "1Gi"),
        "from-more-than-the-claim-has": ("50Gi", "1Gi"),
        "grown-and-removed": ("10Gi", "20Gi", None),
    },
)
def test_a_size_of_the_store_is_a_wish(api: Api, sizes: tuple[str | None, ...]) -> None:
    """The claim is shared: only it decides whether it grows, so no former wish binds a spec."""
    for size in sizes:
        said = api.apply(document(at("build.store.size", size) if size else {}, name="sized"))
        assert said.endswith(("created\n", "configured\n"))
    stored = api.read("mmm", "sized")["spec"]["build"]["store"]

    assert stored.get("size") == sizes[-1]


@pytest.mark.parametrize(
    ("field", "before", "after"),
    [("storageClassName", "fast", "slow"), ("accessMode", "ReadWriteOnce", "ReadWriteMany")],
)
def test_class_and_mode_of_the_store_stay(api: Api, field: str, before: str, after: str) -> None:
    """A claim keeps its class and its modes, so the fields cannot change or be set later."""
    name = field.lower()
    api.apply(document(at(f"build.store.{field}", before), name=name))

    answer = api.apply(document(at(f"build.store.{field}", after), name=name))

    assert f"{field} cannot change" in answer


def test_scale_moves_replicas(api: Api) -> None:
    api.apply(document(name="scaled"))
    api.kubectl("scale", "mmm", "scaled", "--replicas=3")

    assert api.kubectl("get", "mmm", "scaled", "-o", "jsonpath={.spec.replicas}") == "3"


def test_status_is_written_apart_from_the_spec(api: Api) -> None:
    """A patch of the status subresource shows in the columns and leaves the generation alone."""
    api.apply(document(name="ready"))
    status = {
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "ReplicasAvailable",
                "message": "1 replica answers",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 1,
            }
        ],
        "readyReplicas": 1,
        "readyOfWanted": "1/2",
        "url": "http://ready.api-tests.svc/v1",
        "plan": {"family": "llava", "shortServingHash": "abc", "shortFingerprint": "def"},
    }
    api.kubectl(
        *("patch", "mmm", "ready", "--subresource=status", "--type=merge"),
        *("-p", json.dumps({"status": status})),
    )
    head, row = api.kubectl("get", "mmm", "ready", "-o", "wide").splitlines()

    assert api.kubectl("get", "mmm", "ready", "-o", "jsonpath={.metadata.generation}") == "1"
    assert head.split() == [
        *("NAME", "READY", "REASON", "BACKEND", "REPLICAS", "URL", "AGE"),
        *("FAMILY", "ENGINE", "PLAN"),
    ]
    assert re.sub(r"\d+s", "AGE", row).split() == [
        *("ready", "True", "ReplicasAvailable", "Reference", "1/2"),
        *("http://ready.api-tests.svc/v1", "AGE", "llava", "def", "abc"),
    ]


def test_model_is_in_the_category_all(api: Api) -> None:
    api.apply(document(name="listed"))

    assert "multimodalmodel.serving.multimodal.dev/listed" in api.kubectl("get", "all")


@cases(
    "path lines",
    {
        "spec": ("spec", ["FIELD: spec <Object>", "model <Object> -required-"]),
        "field-with-default": (
            "spec.engine.maxBatchSize",
            ["FIELD: maxBatchSize <integer>", "Requests that are decoded in one step. Default: 8."],
        ),
        "quantity": (
            "spec.build.store.size",
            ["Least size of the claim that the operator makes, which the models of a namespace "],
        ),
    },
)
def test_explain_is_readable(api: Api, path: str, lines: list[str]) -> None:
    text = " ".join(api.kubectl("explain", f"mmm.{path}").split())

    assert [line for line in lines if " ".join(line.split()) not in text] == []
