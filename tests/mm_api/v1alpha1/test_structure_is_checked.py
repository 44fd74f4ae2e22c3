"""`validate` names every structural problem of a document at its path, and says what to do."""

from typing import Any

from mm_api.v1alpha1.validation import Problem, validate
from support.cases import cases
from support.model_documents import at, document


@cases(
    "spec expected",
    {
        "typo": (at("engin", {}), Problem("spec.engin", "unknown field: did you mean engine?")),
        "odd": (at("engine.xyzzy", 1), Problem("spec.engine.xyzzy", "unknown field: remove it")),
        "elsewhere": (
            at("vision.maxImagePixels", 1),
            Problem("spec.vision.maxImagePixels", "unknown field: it belongs to spec.gateway"),
        ),
        "enum": (
            at("engine.backend", "Tensor"),
            Problem(
                "spec.engine.backend",
                "'Tensor' is not allowed: use one of 'TensorRT', 'PyTorch', 'VLLM' or 'Reference'",
            ),
        ),
        "text-for-number": (
            at("engine.maxBatchSize", "8"),
            Problem(
                "spec.engine.maxBatchSize",
                "'8' has the wrong type: write a whole number from 1 to 4096",
            ),
        ),
        "bound": (
            at("engine.maxBatchSize", 0),
            Problem(
                "spec.engine.maxBatchSize", "0 is not allowed: write a whole number from 1 to 4096"
            ),
        ),
        "number-for-text-of-a-map": (
            at("runtime.nodeSelector", {"pool": 1}),
            Problem("spec.runtime.nodeSelector.pool", "1 has the wrong type: write text"),
        ),
        "object-for-list": (
            at("autoscaling.objectives", {"metric": "QueueTime"}),
            Problem(
                "spec.autoscaling.objectives",
                "{'metric': 'QueueTime'} has the wrong type: write a list",
            ),
        ),
        "quantity": (
            at("build.store.size", "8GB"),
            Problem(
                "spec.build.store.size",
                "'8GB' is not a quantity: write a number with an optional suffix (m, k, M, G, T, "
                "P, E, Ki, Mi, Gi, Ti, Pi, Ei), for example 8Gi",
            ),
        ),
        "fraction-for-quantity": (
            at("runtime.resources.limits.cpu", 1.5),
            Problem(
                "spec.runtime.resources.limits.cpu",
                "1.5 is not a quantity: write a whole number or text such as '1500m' or '8Gi'",
            ),
        ),
        "text-for-object": (
            at("engine", "Reference"),
            Problem("spec.engine", "'Reference' is not an object: write fields and values"),
        ),
        "zero-duration": (
            at("build.timeout", "0s"),
            Problem(
                "spec.build.timeout",
                "'0s' is not a duration above zero: write for example 500ms, 90s, 2h or 1h30m",
            ),
        ),
        "item-of-a-list": (
            at("gateway.allowedHosts", ["a.example", "B!"]),
            Problem(
                "spec.gateway.allowedHosts[1]",
                "'B!' is not allowed: string should match pattern "
                r"'^(\*\.)?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
                r"(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$', for example images.example.org",
            ),
        ),
    },
)
def test_problem_has_path_and_advice(spec: dict[str, Any], expected: Problem) -> None:
    """One wrong field is one problem, at the field, with what was expected."""
    assert [expected] == validate(document(spec))


def test_missing_field_is_required() -> None:
    problems = validate(
        {"apiVersion": "serving.multimodal.dev/v1alpha1", "kind": "MultimodalModel"}
    )

    assert problems == [
        Problem("metadata", "required: set it"),
        Problem("spec", "required: set it"),
    ]


def test_null_means_absent() -> None:
    """A field that is null takes its default, as it does in the API server."""
    assert validate(document({"engine": None, "replicas": None})) == []


def test_all_problems_come_at_once() -> None:
    """A user sees every problem of a document in one run, in the order of paths."""
    problems = validate(document({"engine": {"maxBatchSize": 0}, "buld": {}, "replicas": -1}))

    assert [problem.path for problem in problems] == [
        "spec.buld",
        "spec.engine.maxBatchSize",
        "spec.replicas",
    ]


def test_problem_reads_as_one_line() -> None:
    """A problem prints as path and message, a problem of the entire as its message."""
    assert (str(Problem("spec.a", "wrong")), str(Problem("", "wrong"))) == (
        "spec.a: wrong",
        "wrong",
    )


@cases(
    "metadata words",
    {
        "namespace": ({"namespace": "My NS"}, "namespace 'My NS' is not allowed"),
        "namespace-of-yaml": ({"namespace": True}, "namespace True is not allowed"),
        "labels-that-are-a-list": ({"labels": ["a"]}, "labels is ['a']: write names and texts"),
        "label-number": ({"labels": {"a": 1}}, "labels.a is 1, which is no text"),
        "label-boolean": ({"labels": {"a": True}}, "labels.a is True, which is no text"),
        "label-of-words": ({"labels": {"a": "b c"}}, "labels.a is 'b c': use up to 63 letters"),
        "label-too-long": ({"labels": {"a": "b" * 64}}, "labels.a is 'bbbb"),
        "annotation-key": ({"annotations": {"x y": "z"}}, "annotations has the key 'x y'"),
        "annotation-number": (
            {"annotations": {"a": 1.0}},
            "annotations.a is 1.0, which is no text",
        ),
    },
)
def test_metadata_that_no_api_server_takes(metadata: dict[str, Any], words: str) -> None:
    """YAML reads what looks like a number or a truth as one."""
    model = document(at("engine.maxBatchSize", 1))
    model["metadata"] |= metadata
    (problem,) = validate(model)
    assert (problem.path, problem.message[: len(words)]) == ("metadata", words)


def test_metadata_as_people_have_it() -> None:
    model = document(at("engine.maxBatchSize", 1))
    model["metadata"] |= {"namespace": "demo", "annotations": {"a.org/b_c": "any text {}"}}
    model["metadata"] |= {"labels": {"app.kubernetes.io/name": "x", "empty": "", "gone": None}}
    assert validate(model) == []


@cases(
    "field wrong example",
    {
        "claim": (
            "model.source",
            {"persistentVolumeClaim": {"claimName": "My_Claim"}},
            "checkpoints",
        ),
        "secret": ("gateway.authSecretRef", {"name": "A!"}, "hub-token"),
        "host": ("gateway.allowedHosts", ["https://a.org"], "images.example.org"),
        "repository": (
            "model.source",
            {"huggingFace": {"repo": "https://a.org/b"}},
            "llava-hf/llava-1.5-7b-hf",
        ),
    },
)
def test_a_pattern_comes_with_an_example(field: str, wrong: object, example: str) -> None:
    assert [one for one in validate(document(at(field, wrong))) if example in one.message]
