"""The demo's stages fit together, answers are judged by their words, failures show evidence."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from mm_devcluster.demo import preparation
from mm_devcluster.demo.__main__ import next_steps
from mm_devcluster.demo.display import LiveTable, PlainLines
from mm_devcluster.demo.estimates import Progress
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
    walk = ["apply", "inspect", "client", "plan", "build", "rollout", "ready", "answers"]
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
    assert set(stages["helm"].needs) == {"namespaces", "operator", "runtime-image"}
    stages = {stage.key: stage for stage in stages_of(Session(Options("dev", family=ON_VLLM)), [])}
    assert set(stages["helm"].needs) == {"namespaces", "operator", "runtime-image", "vllm-image"}
    assert set(stages["apply"].needs) == {"helm", "upload", "dns", "runtime", "vllm"}


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
    assert keys[:3] == ["cluster", "namespaces", "helm"]


@cases(
    "cluster first last",
    {
        "ours": ("dev", "mm-devcluster kubeconfig)", "make demo-down"),
        "named": ("mine", "kubeconfig --name mine)", "make demo-down CLUSTER=mine"),
        "current": ("current", "", "make demo-down CLUSTER=current"),
    },
)
def test_steps_come_next_and_fit_a_terminal(cluster: str, first: str, last: str) -> None:
    commands = [command for _, command in next_steps(Session(Options(cluster)))]

    assert (commands[0].endswith(first), commands[-1]) == (True, last)
    assert {"mmctl ask", "mmctl status"} <= {" ".join(one.split()[:2])[10:] for one in commands}
    assert max(len(line) for one in commands for line in one.splitlines()) <= 78


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


def _pod(phase: str, **container: Any) -> dict[str, Any]:
    return {"status": {"phase": phase, "containerStatuses": [{"name": "server", **container}]}}


OUT_OF_MEMORY = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "message": "Insufficient memory"}
PULLING = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}


@cases(
    "pod expected",
    {
        "pulling": (_pod("Pending", state=PULLING), ["server waits: ErrImagePull not found"]),
        "killed": (
            _pod("Failed", state=OUT_OF_MEMORY),
            ["server ended with exit code 137 (OOMKilled)"],
        ),
        "unschedulable": (
            {"status": {"phase": "Pending", "conditions": [UNSCHEDULED]}},
            ["not scheduled: Insufficient memory"],
        ),
        "unready": (
            _pod("Running", ready=False, restartCount=2, state={"running": {}}),
            ["server is not ready, 2 restarts"],
        ),
        "well": (_pod("Running", ready=True, state={"running": {}}), []),
        "finished": ({"status": {"phase": "Succeeded"}}, []),
    },
)
def test_a_pods_trouble_is_one_line(pod: dict[str, Any], expected: list[str]) -> None:
    assert troubles_of(pod) == expected


WAY = (Stage("a", "Build", lambda _: ""), Stage("b", "Load", lambda _: "", ("a",)))


def test_plain_lines_fit_and_say_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(WAY, {"a": 400.0, "b": 20.0})
    display = PlainLines(progress)
    details = ((State.RUNNING, ""), (State.RUNNING, "one"), (State.DONE, "done" * 30))
    for state, detail in details[:2]:
        display.show(Update("a", state, detail, 1.0))
    before = progress.line()
    display.show(Update("a", *details[2], 1.0))
    lines = capsys.readouterr().out.splitlines()

    assert [line.partition("] ")[2].split()[:2] for line in lines] == [["Build"], ["done", "Build"]]
    assert max(map(len, lines)) == 80
    assert before == "0 of 2 done, about 7 min left: Build 0 s (one)"
    assert progress.line() == "1 of 2 done, about 20 s left: "


def test_a_narrow_terminal_cuts_details_alone(capsys: pytest.CaptureFixture[str]) -> None:
    stages = stages_of(Session(Options("dev")), [])
    progress = Progress(stages, {})
    live = LiveTable(progress)
    for stage in stages:
        progress.note(Update(stage.key, State.DONE, "a long detail " * 10, 1234.5))
    Console(width=80).print(live.drawn())
    lines = capsys.readouterr().out.splitlines()

    assert lines.pop().startswith(f"{len(stages)} of {len(stages)} done")
    assert max(map(len, lines)) <= 80
    complete = [
        f"{stage.title} " in line and "1234.5 s" in line
        for stage, line in zip(stages, lines, strict=True)
    ]
    assert complete == [True] * len(stages)
