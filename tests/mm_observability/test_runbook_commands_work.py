"""Commands of runbooks are typed at night: each is run here, as it stands, on a served model."""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from mm_api.conditions import Reason
from mm_devcluster.cluster import ClusterInfo
from mm_observability.dashboards.dashboard import every_dashboard
from mm_operator.telemetry.logs import KeyedFormatter
from support.clusters import namespace
from support.definition import install_definition
from support.keda_definitions import install_keda_definitions
from support.model_documents import document
from support.model_namespace import Api
from support.representatives import others_are_slow
from support.scaled_models import operated, start
from support.scripts import ROOT

PAGES = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
EACH = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
BY_NAME = {page.stem: page for page in PAGES}
QUICK = ("MultimodalAtMaxAndSlow", "MultimodalBuildFailed", "MultimodalModelUnavailable")
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NOT_HERE = ("curl ", "deploy/", " top ")
"""No Prometheus, no pods of the operator and no kubelet run here."""
_MEANT = {"OPERATOR_NAMESPACE": "{namespace}", "OPERATOR": "one", "NAMESPACE": "{namespace}"}
_SECONDS = 60.0


def commands(page: Path) -> list[str]:
    lines = "".join(_BLOCK.findall(page.read_text(encoding="utf-8"))).splitlines()
    return [re.split(r"\s+[|#&]", line)[0].rstrip(" &") for line in lines if line.strip()]


@pytest.fixture(name="served", scope="module")
def served_model(
    control_plane: ClusterInfo, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Api]:
    """A model of one replica; the pods that inspected and built it are still there."""
    folder = tmp_path_factory.mktemp("operator")
    install_definition(control_plane)
    install_keda_definitions(control_plane)
    with namespace(control_plane, f"runbooks-{uuid4().hex[:8]}") as name:
        api = Api(control_plane, name)
        with operated(api, folder):
            start(api, document(name="llava"))
            yield api


def typed(api: Api, command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    for word, meant in {**_MEANT, "MODEL": "llava"}.items():
        command = re.sub(rf"\b{word}\b", meant.format(namespace=api.namespace), command)
    (folder / "kubectl").unlink(missing_ok=True)
    (folder / "kubectl").symlink_to(api.cluster.kubectl)
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "PATH": path, "KUBECONFIG": str(api.cluster.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


@pytest.mark.cluster
@pytest.mark.parametrize("page", others_are_slow(BY_NAME, *QUICK))
def test_commands_are_understood(page: str, served: Api, tmp_path: Path) -> None:
    reported = {}
    for command in commands(BY_NAME[page]):
        if any(word in command for word in _NOT_HERE):
            continue
        done = typed(served, command, tmp_path)
        if (
            " logs " in command
        ):  # no kubelet has any; that a pod lacks the container is reported before
            wrong = "is not valid for pod" in done.stderr
        else:
            wrong = done.returncode != 0
        if wrong:
            reported[command] = done.stderr

    assert reported == {}


@pytest.mark.cluster
def test_a_command_that_is_wrong_is_noticed(served: Api, tmp_path: Path) -> None:
    logs = "kubectl -n NAMESPACE logs -l serving.multimodal.dev/model=MODEL -c triton"

    assert "is not valid for pod" in typed(served, logs, tmp_path).stderr
    assert typed(served, "kubectl -n NAMESPACE get hpa,scaledobjekt", tmp_path).returncode == 1
    assert typed(served, "mmctl scaling why MODEL", tmp_path).returncode == 2


def test_every_page_has_commands() -> None:
    assert [page.stem for page in PAGES if not commands(page)] == []
    assert {command.split()[0] for page in PAGES for command in commands(page)} == {
        "kubectl",
        "mmctl",
        "curl",
    }


def test_errors_are_found_in_the_operators_log() -> None:
    text = (ROOT / "docs/runbooks/MultimodalOperatorReconcileErrors.md").read_text(encoding="utf-8")
    [wanted] = re.findall(r"logs deploy/OPERATOR .*\| grep '([^']+)'", text)
    record = logging.LogRecord("mm_operator", logging.ERROR, "a.py", 1, "it failed", None, None)

    assert wanted in KeyedFormatter().format(record)


@EACH
def test_a_page_names_reasons_and_panels_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    panels = {
        panel.title
        for dashboard in every_dashboard()
        for row in dashboard.rows
        for panel in row.panels
    }
    reasons = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`", text))

    known = {str(one) for one in Reason} | {"AnswersDiffer", "EngineBuilt", "ScalingActive"}
    assert reasons - known == set()
    named = set(re.findall(r"[Pp]anel \*([^*]+)\*", text))
    assert named - panels == set()
