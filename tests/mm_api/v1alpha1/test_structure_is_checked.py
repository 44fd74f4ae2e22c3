"""`validate` names every structural problem of a document at its path, and says what to do."""

from typing import Any

from mm_api.v1alpha1.validation import Problem, validate
from support.golden import Golden
from support.model_documents import at, document

OBJECTIVE = {"metric": "TimeToFirstToken", "target": "500ms"}
WRONG: dict[str, dict[str, Any]] = {
    "typo": at("engin", {}),
    "odd": at("engine.xyzzy", 1),
    "elsewhere": at("vision.maxImagePixels", 1),
    "enum": at("engine.backend", "Tensor"),
    "text-for-number": at("engine.maxBatchSize", "8"),
    "number-for-text": at("gateway.requestTimeout", 30),
    "token-beside-its-secret": at(
        "model.source", {"huggingFace": {"repo": "a/b", "token": "hf_x"}}
    ),
    "bound": at("engine.maxBatchSize", 0),
    "number-for-text-of-a-map": at("runtime.nodeSelector", {"pool": 1}),
    "object-for-list": at("autoscaling.objectives", {"metric": "QueueTime"}),
    "quantity": at("build.store.size", "8GB"),
    "fraction-for-quantity": at("runtime.resources.limits.cpu", 1.5),
    "text-for-object": at("engine", "Reference"),
    "zero-duration": at("build.timeout", "0s"),
    "item-of-a-list": at("gateway.allowedHosts", ["a.example", "B!"]),
    "claim": at("model.source", {"persistentVolumeClaim": {"claimName": "My_Claim"}}),
    "secret": at("gateway.authSecretRef", {"name": "A!"}),
    "repository": at("model.source", {"huggingFace": {"repo": "https://a.org/b"}}),
    "archive": at("model.source", {"http": {"url": "https://a.org/nmt.tar.bz2"}}),
    "removed-engine": at("autoscaling.engine", "HPA"),
    "fewest-above-most": at("autoscaling", {"minReplicas": 3, "objectives": [OBJECTIVE]}),
    "no-replica": at("autoscaling", {"minReplicas": 0, "engine": "KEDA"}),
    "removed-prometheus": at("autoscaling.prometheus", {"addresses": ["http://p"]}),
} | {
    f"objective-{field}-{value}": at("autoscaling.objectives", [{**OBJECTIVE, field: value}])
    for field, value in (
        *(("target", 0), ("target", "0s"), ("metric", "TTFT")),
        *(("percentile", 0), ("percentile", 101), ("percentile", "p95")),
    )
}
METADATA: dict[str, dict[str, Any]] = {
    "namespace": {"namespace": "My NS"},
    "namespace-of-yaml": {"namespace": True},
    "labels-that-are-a-list": {"labels": ["a"]},
    "label-number": {"labels": {"a": 1}},
    "label-boolean": {"labels": {"a": True}},
    "label-of-words": {"labels": {"a": "b c"}},
    "label-too-long": {"labels": {"a": "b" * 64}},
    "annotation-key": {"annotations": {"x y": "z"}},
    "annotation-number": {"annotations": {"a": 1.0}},
}


def test_a_problem_has_path_and_advice(golden: Golden) -> None:
    wrong = {name: document(spec) for name, spec in WRONG.items()}
    for name, metadata in METADATA.items():
        model = document(at("engine.maxBatchSize", 1))
        model["metadata"] |= metadata
        wrong[f"metadata: {name}"] = model
    found = {name: [*map(str, validate(model))] for name, model in wrong.items()}

    assert {len(problems) for problems in found.values()} == {1}
    golden.check_yaml("problems.yaml", found)


def test_missing_field_is_required() -> None:
    problems = validate(
        {"apiVersion": "serving.multimodal.dev/v1alpha1", "kind": "MultimodalModel"}
    )

    assert problems == [
        Problem("metadata", "required: set it"),
        Problem("spec", "required: set it"),
    ]


def test_null_means_absent() -> None:
    assert validate(document({"engine": None, "replicas": None})) == []


def test_all_problems_come_at_once() -> None:
    problems = validate(document({"engine": {"maxBatchSize": 0}, "buld": {}, "replicas": -1}))

    assert [problem.path for problem in problems] == [
        "spec.buld",
        "spec.engine.maxBatchSize",
        "spec.replicas",
    ]


def test_problem_reads_as_one_line() -> None:
    assert (str(Problem("spec.a", "wrong")), str(Problem("", "wrong"))) == (
        "spec.a: wrong",
        "wrong",
    )


def test_metadata_as_people_have_it() -> None:
    model = document(at("engine.maxBatchSize", 1))
    model["metadata"] |= {"namespace": "demo", "annotations": {"a.org/b_c": "any text {}"}}
    model["metadata"] |= {"labels": {"app.kubernetes.io/name": "x", "empty": "", "gone": None}}
    assert validate(model) == []
