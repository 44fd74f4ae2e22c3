"""The operator itself, as the account of the chart, brings a model to its first Job."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import helm_python as helm
import pytest

from mm_api import labels
from mm_api.v1alpha1.definition import NAME, definition
from mm_devcluster.cluster import ClusterInfo
from support.chart import CHART, RELEASE, of_kind
from support.chart_accounts import account_kubeconfig, running
from support.clusters import apply, kubectl, kubectl_json, namespace, read
from support.definition import install_definition
from support.eventually import eventually
from support.model_documents import document
from support.representatives import others_are_slow

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

HOME, MODELS = "rights-home", "rights-models"
OUTDATED = "definition is older than this operator"
PROGRAM = Path(sys.executable).with_name("mm-operator")
OWN = ["--port=0", f"--lease-namespace={HOME}", f"--role-name={HOME}-{RELEASE}"]


@contextmanager
def released(cluster: ClusterInfo, values: dict[str, Any]) -> Iterator[helm.Config]:
    with (
        namespace(cluster, HOME),
        namespace(cluster, MODELS),
        helm.Config(namespace=HOME, kubeconfig_path=str(cluster.kubeconfig)) as config,
    ):
        config.install(CHART, RELEASE, values, timeout=60)
        try:
            yield config
        finally:
            config.uninstall(RELEASE, timeout=60)


@contextmanager
def operated(
    cluster: ClusterInfo, folder: Path, values: dict[str, Any] | None = None
) -> Iterator[Path]:
    arguments = ["run", "--runtime-image=localhost/runtime:test"]
    if values is not None:
        (deployment,) = of_kind("Deployment", values)
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        arguments = container["args"]
    kubeconfig = account_kubeconfig(cluster, HOME, RELEASE, folder / "kubeconfig")
    with running(PROGRAM, [*arguments, *OWN], kubeconfig, folder / "operator.log"):
        yield folder / "operator.log"


def apply_model(cluster: ClusterInfo) -> None:
    model = document()
    model["metadata"]["namespace"] = MODELS
    apply(cluster, model)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="every-namespace"),
        pytest.param({"watchNamespaces": [MODELS]}, id="one-namespace", marks=pytest.mark.slow),
    ],
)
def test_operator_starts_inspection_with_the_rights_of_the_chart(
    values: dict[str, Any], control_plane: ClusterInfo, tmp_path: Path
) -> None:
    """The Job is made, the status is written, and the API server forbids nothing on the way."""
    install_definition(control_plane)
    with released(control_plane, values), operated(control_plane, tmp_path, values) as log:
        apply_model(control_plane)
        reason = eventually(lambda: _planned(control_plane))

    assert reason == "InspectPending", log.read_text(encoding="utf-8")
    # A namespace of an earlier test may be on its way out: no one has the right to write there.
    forbidden = [
        line
        for line in log.read_text(encoding="utf-8").splitlines()
        if "orbidden" in line and "is being terminated" not in line
    ]
    assert forbidden == []


def _definition(cluster: ClusterInfo) -> dict[str, Any]:
    return kubectl_json(cluster, "get", "crd", NAME)


def _fields(definition: dict[str, Any]) -> set[str]:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return set(schema["properties"]["spec"]["properties"])


def _older() -> dict[str, Any]:
    """Return a definition of a former release: it knew a field, and did not know another."""
    older = deepcopy(definition())
    marks = {labels.DEFINITION_RELEASE: "0.0.9", labels.DEFINITION_DIGEST: "former"}
    older["metadata"]["annotations"] = marks
    schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields = schema["properties"]["spec"]["properties"]
    fields["formerField"] = {"type": "string"}
    del fields["network"]
    return older


@pytest.mark.parametrize("upgrade", others_are_slow(["Auto", "Never"], "Auto"))
def test_an_upgraded_operator_upgrades_the_definition(
    upgrade: str, control_plane: ClusterInfo, tmp_path: Path
) -> None:
    """Helm's upgrade leaves an older one as it is; the operator replaces it before it is ready.

    Where it may not, its log says so and how to do it, and it works on.
    """
    install_definition(control_plane)
    wanted = _fields(_definition(control_plane))
    values = {"definition": {"upgrade": upgrade}}
    with released(control_plane, values) as config:
        try:
            kubectl(
                control_plane,
                *("apply", "--server-side", "--force-conflicts", "-f", "-"),
                stdin=json.dumps(_older()),
            )
            config.upgrade(CHART, RELEASE, values, timeout=60)
            # Server-side apply leaves to Helm's manager what only Helm wrote: `network` stays.
            assert "formerField" in _fields(_definition(control_plane))

            with operated(control_plane, tmp_path, values) as log:
                eventually(
                    lambda: "upgraded to release" in log.read_text() or OUTDATED in log.read_text()
                )
                found = _definition(control_plane)
        finally:
            install_definition(control_plane)

    current = found["metadata"]["annotations"].get(labels.DEFINITION_DIGEST)
    if upgrade == "Never":
        assert "formerField" in _fields(found)
        assert OUTDATED in log.read_text()
    else:
        assert _fields(found) == wanted
        assert current == definition()["metadata"]["annotations"][labels.DEFINITION_DIGEST]
    assert "orbidden" not in log.read_text()


def test_a_namespace_without_the_label_is_left_alone(
    control_plane: ClusterInfo, tmp_path: Path
) -> None:
    """The model says which command opts in; after it, the operator continues by itself."""
    install_definition(control_plane)
    command = f"kubectl label namespace {MODELS} {labels.ENABLED}=true"
    with released(control_plane, {}):
        kubectl(control_plane, "label", "namespace", MODELS, f"{labels.ENABLED}-")
        eventually(lambda: "denied" in _made(control_plane))
        with operated(control_plane, tmp_path):
            apply_model(control_plane)
            eventually(lambda: command in _degraded(control_plane))
            assert kubectl(control_plane, "-n", MODELS, "get", "jobs,leases") == ""

            kubectl(control_plane, *command.split()[1:])

            assert eventually(lambda: _planned(control_plane)) == "InspectPending"


def _made(cluster: ClusterInfo) -> str:
    """Return what the API server says when the operator's account makes an object.

    The chart's policy counts about a second after it was made.
    """
    account = f"--as=system:serviceaccount:{HOME}:{RELEASE}"
    command = ["-n", MODELS, "create", "configmap", "early", "--dry-run=server", account]
    return kubectl(cluster, *command, check=False)


def _degraded(cluster: ClusterInfo) -> str:
    model = read(cluster, "-n", MODELS, "mmm", "llava")
    conditions = {one["type"]: one for one in model["status"]["conditions"]}
    return str(conditions["Degraded"]["message"])


def _planned(cluster: ClusterInfo) -> str | None:
    """Return the reason of the condition Planned once the Job waits for its pod."""
    model = read(cluster, "-n", MODELS, "mmm", "llava")
    reasons = [
        condition["reason"]
        for condition in model.get("status", {}).get("conditions", ())
        if condition["type"] == "Planned" and condition["reason"] != "Inspecting"
    ]
    return reasons[0] if reasons else None
