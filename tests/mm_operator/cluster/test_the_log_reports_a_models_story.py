"""What the operator's own log says of a model on a real API server."""

import json
from pathlib import Path

import pytest

from support.absent_kubelet import built, get, inspected, serving
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator

pytestmark = pytest.mark.cluster


def reported(log: Path, key: str) -> list[str]:
    lines = (json.loads(line) for line in log.read_text().splitlines())
    return [
        line["event"]
        for line in lines
        if line["logger"] == "mm_operator.status.story" and line.get("key") == key
    ]


def test_begin_and_end_of_each_stage_are_lines(api: Api, tmp_path: Path) -> None:
    key = f"{api.namespace}/llava"
    with running_operator(api.cluster, tmp_path, api.namespace) as operator:

        def status(*path: str) -> object:
            found = get(api, "mmm", "llava").get("status", {})
            for name in path:
                found = found.get(name, {})
            return found

        api.apply(document(name="llava"))
        inspected(api, "llava")
        eventually(lambda: status("build", "attempts") == 1)
        built(api)
        api.reaches("llava", "RollingOut", "True")
        serving(api, "llava")
        api.reaches("llava", "RollingOut", "RolloutComplete")
        api.apply(document({"engine": {"maxInputLen": 100_000}}, name="llava"))
        api.reaches("llava", "Planned", "InvalidSpec")

        eventually(lambda: "Refused" in reported(operator.log, key))
        lines = reported(operator.log, key)
        assert lines[: lines.index("Refused") + 1] == [
            "BuildStarted",
            "BuildSucceeded",
            "RolloutStarted",
            "RolloutFinished",
            "Refused",
        ]
        assert lines.count("Refused") == 1
