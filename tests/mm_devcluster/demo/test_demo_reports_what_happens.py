"""The demo's stages fit together, answers are judged by their words, failures show evidence."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from mm_devcluster.demo import preparation
from mm_devcluster.demo.__main__ import next_commands
from mm_devcluster.demo.display import LiveTable, PlainLines
from mm_devcluster.demo.evidence import troubles_of
from mm_devcluster.demo.graph import Stage, State, Update, check_graph
from mm_devcluster.demo.questions import (
    Answer,
    Question,
    choose_questions,
    read_questions,
    words_of,
)
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.settings import FAMILIES, FIRST, Family, Options, chosen
from mm_devcluster.demo.stages import stages_of
from mm_devcluster.demo.walk import conditions_of
from mm_devcluster.errors import DevClusterError
from mm_devcluster.images.catalogue import vllm_version
from support.cases import cases


@pytest.mark.parametrize("cluster", ["dev", "current"])
def test_the_table_of_stages_can_run(cluster: str) -> None:
    """Both ways to a cluster lead through the same walk to the questions."""
    stages = stages_of(Session(Options(cluster)), [])
    check_graph(stages)
    walk = ["helm", "upload", "apply", "inspect", "plan", "build", "rollout", "ready", "answers"]
    assert [stage.key for stage in stages][-len(walk) :] == walk


ON_VLLM = chosen(FIRST, "VLLM")


@pytest.mark.parametrize("family", [*FAMILIES.values(), ON_VLLM], ids=lambda one: one.manifest.stem)
def test_each_family_is_complete(family: Family) -> None:
    """Its manifest, checkpoint and samples lie where their name says; its vLLM is the image's."""
    document = yaml.safe_load(family.manifest.read_text())
    claim = document["spec"]["model"]["source"]["persistentVolumeClaim"]

    assert (document["metadata"]["name"], claim["path"]) == (family.model, family.model)
    assert (family.checkpoint / "config.json").is_file()
    assert all(question.image.is_file() for question in read_questions(family.samples))
    version = document["spec"].get("runtime", {}).get("vllmVersion")
    assert version == (vllm_version() if family.images else None)


def test_the_chart_waits_for_the_image_it_names() -> None:
    """The release names the runtime image by its content, which is known once it is built."""
    stages = {stage.key: stage for stage in stages_of(Session(Options("dev")), [])}
    assert set(stages["helm"].needs) == {"operator", "runtime-image"}
    stages = {stage.key: stage for stage in stages_of(Session(Options("dev", family=ON_VLLM)), [])}
    assert set(stages["helm"].needs) == {"operator", "runtime-image", "vllm-image"}
    assert set(stages["apply"].needs) == {"helm", "upload", "runtime", "vllm"}


def test_a_processor_without_avx512_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before anything is built; a family without a manifest of the backend is refused, too."""
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor: 0\nflags\t\t: fpu avx2 sha_ni\n")
    monkeypatch.setattr(preparation, "CPUINFO", cpuinfo)
    for name in ("install", "missing_packages", "missing_for_node"):
        place = preparation if name == "missing_for_node" else preparation.packages
        monkeypatch.setattr(place, name, lambda *_: [])
    with pytest.raises(DevClusterError, match="no AVX512"):
        preparation.check_machine(Session(Options(family=ON_VLLM)), print)
    with pytest.raises(DevClusterError, match="tiny is not served"):
        chosen("qwen2.5-vl-tiny", "VLLM")


def test_another_users_cluster_gets_no_images() -> None:
    keys = [stage.key for stage in stages_of(Session(Options("current")), [])]
    assert keys[:2] == ["cluster", "helm"]


@cases(
    "cluster last",
    {
        "ours": ("dev", "make demo-down"),
        "named": ("mine", "make demo-down CLUSTER=mine"),
        "current": ("current", "make demo-down CLUSTER=current"),
    },
)
def test_three_commands_come_next(cluster: str, last: str) -> None:
    commands = next_commands(Session(Options(cluster)))
    assert (len(commands), commands[-1]) == (3, last)


@cases(
    "text right",
    {
        "same": ("a red square", True),
        "case-and-stop": ("A red square.", True),
        "spaces": (" a  red square\n", True),
        "other-word": ("a red circle", False),
        "nothing": ("", False),
    },
)
def test_answers_are_judged_by_their_words(text: str, right: bool) -> None:  # noqa: FBT001 - a parameter
    question = Question(Path("x.png"), "what ?", "a red square")
    answer = Answer(question, text, streamed=False, first_token_seconds=0.0, pieces=1)
    assert (answer.is_right, words_of("A b.")) == (right, ["a", "b"])


def test_images_and_questions_vary() -> None:
    questions = [Question(Path(p), t, "") for p, t in ("ax", "ay", "bx", "by", "cx", "cz")]
    chosen = choose_questions(questions, 3)
    assert [(question.image.name, question.text) for question in chosen] == [
        ("a", "x"),
        ("b", "y"),
        ("c", "z"),
    ]


def test_conditions_of_an_older_generation_do_not_count() -> None:
    """After a change of the spec, yesterday's Ready is not today's."""
    entry = {"status": "True", "reason": "X", "message": ""}
    model = {
        "metadata": {"generation": 2},
        "status": {
            "conditions": [
                {"type": "Ready", "observedGeneration": 1, **entry},
                {"type": "Planned", "observedGeneration": 2, **entry},
            ]
        },
    }
    assert list(conditions_of(model)) == ["Planned"]


POD_STATUS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "pulling": (
        {
            "phase": "Pending",
            "containerStatuses": [
                {
                    "name": "server",
                    "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}},
                }
            ],
        },
        ["server waits: ErrImagePull not found"],
    ),
    "killed": (
        {
            "phase": "Failed",
            "containerStatuses": [
                {"name": "build", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
            ],
        },
        ["build ended with exit code 137 (OOMKilled)"],
    ),
    "unschedulable": (
        {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "message": "Insufficient memory"}
            ],
        },
        ["not scheduled: Insufficient memory"],
    ),
    "unready": (
        {
            "phase": "Running",
            "containerStatuses": [
                {"name": "gateway", "ready": False, "restartCount": 2, "state": {"running": {}}}
            ],
        },
        ["gateway is not ready, 2 restarts"],
    ),
    "well": (
        {
            "phase": "Running",
            "containerStatuses": [{"name": "server", "ready": True, "state": {"running": {}}}],
        },
        [],
    ),
    "finished": ({"phase": "Succeeded"}, []),
}


@pytest.mark.parametrize("case", POD_STATUS, ids=list(POD_STATUS))
def test_a_pods_trouble_is_one_line(case: str) -> None:
    status, expected = POD_STATUS[case]
    assert troubles_of(json.loads(json.dumps({"status": status}))) == expected


def test_plain_lines_do_not_repeat_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    display = PlainLines((Stage("a", "Build", lambda _: ""),))
    for state, detail in (
        (State.RUNNING, ""),
        (State.RUNNING, "one"),
        (State.RUNNING, "two"),
        (State.DONE, "done"),
    ):
        display.show(Update("a", state, detail, 1.0))
    lines = [line.partition("] ")[2].split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["Build"], ["done", "Build", "(1.0", "s):", "done"]]


def test_a_narrow_terminal_cuts_details_alone(capsys: pytest.CaptureFixture[str]) -> None:
    stages = stages_of(Session(Options("dev")), [])
    live = LiveTable(stages)
    for stage in stages:
        live.show(Update(stage.key, State.DONE, "a long detail " * 10, 1234.5))
    Console(width=80).print(live.drawn())
    lines = capsys.readouterr().out.splitlines()

    assert len(lines) == len(stages)
    assert max(map(len, lines)) <= 80
    complete = [
        f"{stage.title} " in line and "1234.5 s" in line
        for stage, line in zip(stages, lines, strict=True)
    ]
    assert complete == [True] * len(stages)
