"""Install the chart with Helm, and put the demo's checkpoint into a claim."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import helm_python
import yaml

from mm_api import labels as api_labels
from mm_devcluster.demo import monitoring, settings
from mm_devcluster.demo.graph import Report
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.target import Target, run_program
from mm_devcluster.demo.walk import is_rolled_out
from mm_devcluster.errors import DevClusterError

MANAGED_BY = "app.kubernetes.io/managed-by"
HEALTHY = frozenset({"deployed", "superseded"})
HELM_TIMEOUT = 120  # seconds
POLL_SECONDS = 0.5
MAX_RESTARTS = 3  # the third restart comes some 40 s after the start; a pod that is well needs none
UPLOAD_TIMEOUT = 300.0  # seconds; 5 MB, measured about 3


def namespace(name: str) -> dict[str, Any]:
    """Return a namespace that accepts only pods of Pod Security level `restricted`.

    The demo's own opted in to models, without which the operator's writes are refused there.
    """
    served = {api_labels.ENABLED: "true"} if name == settings.DEMO_NAMESPACE else {}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {
                "pod-security.kubernetes.io/enforce": "restricted",
                MANAGED_BY: settings.MADE_BY_DEMO,
                **served,
            },
        },
    }


def make_namespace(target: Target, *names: str, beside: Sequence[dict[str, Any]] = ()) -> None:
    """Make namespaces of the demo's own, or find those that it made before.

    `beside`: what is applied with them.

    Raises:
        DevClusterError: A namespace of another owner has that name: `make demo-down` would delete
        it.
    """
    for name in names:
        there = target.document("namespace", name)
        labels = there.get("metadata", {}).get("labels", {})
        if there and labels.get(MANAGED_BY) != settings.MADE_BY_DEMO:
            raise DevClusterError(
                f"namespace {name} exists and is not the demo's, which would use and later delete "
                f"it; use another cluster, or delete it: kubectl delete namespace {name}"
            )
    target.apply(*map(namespace, names), *beside)


def make_namespaces(session: Session, _report: Report) -> str:
    """Make both namespaces, and in the demo's own the claim of its checkpoint."""
    # Pods run as it. A controller makes it as well, seconds after the namespace.
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": settings.DEMO_NAMESPACE},
    }
    claim = yaml.safe_load(settings.CLAIM_MANIFEST.read_text(encoding="utf-8"))
    names = settings.SYSTEM_NAMESPACE, settings.DEMO_NAMESPACE
    make_namespace(session.target, *names, beside=(account, claim))
    return ", ".join(names)


def install_operator(
    session: Session, report: Report, changes: Mapping[str, Any] | None = None
) -> str:
    """Install the chart and wait for the operator; `changes`: see `install_chart`."""
    make_namespace(session.target, settings.SYSTEM_NAMESPACE)
    said = install_chart(session, report, changes)
    await_operator(session, report)
    return said


def install_chart(
    session: Session, report: Report, changes: Mapping[str, Any] | None = None
) -> str:
    """Install the chart, or upgrade what is installed.

    `changes`: values of the chart beside the demo's own.
    """
    target = session.target
    values: dict[str, Any] = {
        "operator": {"image": session.image_reference("operator")},
        "runtime": {"image": session.image_reference("runtime")},
        **(changes or {}),
    }
    if address := monitoring.address_of(target):  # of the Prometheus of `make demo-autoscaling`
        values["prometheus"] = {"addresses": [address]}
    for one in session.options.family.images:
        values["runtime"][f"{one.name}Image"] = session.image_reference(one.name)
    report("helm")
    revision = _release(target, values)
    return f"release {settings.RELEASE}, revision {revision}"


def await_operator(session: Session, report: Report) -> str:
    """Wait until both pods are ready; a pod that crashes again and again ends the wait.

    Raises:
        DevClusterError: They are not ready in time, or crash.
    """
    target, image = session.target, session.image_reference("operator")
    where = ("--namespace", settings.SYSTEM_NAMESPACE)
    deadline = time.monotonic() + settings.ROLLOUT_TIMEOUT
    while True:
        deployment = target.document("deployment", settings.RELEASE, *where)
        if is_rolled_out(deployment):
            return f"{deployment['spec']['replicas']} pods are ready"
        pods = target.document("pods", *where).get("items", [])
        # Pods of an older revision may have crashed before; they are being replaced.
        new = [pod for pod in pods if pod["spec"]["containers"][0]["image"] == image]
        crashed = [pod["metadata"]["name"] for pod in new if restarts_of(pod) >= MAX_RESTARTS]
        if crashed:
            raise DevClusterError(f"the operator crashed {MAX_RESTARTS} times: pod {crashed[0]}")
        if time.monotonic() > deadline:
            raise DevClusterError(f"not ready after {settings.ROLLOUT_TIMEOUT:.0f} s")
        ready = deployment.get("status", {}).get("readyReplicas", 0)
        report(f"operator pods: {ready} ready")
        time.sleep(POLL_SECONDS)


def restarts_of(pod: Mapping[str, Any]) -> int:
    """Return how often a container of a pod that is not ready was restarted."""
    containers = pod.get("status", {}).get("containerStatuses", [])
    return max((each["restartCount"] for each in containers if not each["ready"]), default=0)


def _release(target: Target, values: dict[str, Any]) -> int:
    chart, name = str(settings.CHART), settings.RELEASE
    with helm_python.Config(
        kubeconfig_path=str(target.kubeconfig), namespace=settings.SYSTEM_NAMESPACE
    ) as config:
        try:
            known = config.status(name)
        except helm_python.HelmNotFoundError:
            known = None
        try:
            # A first install that failed cannot be upgraded; it left nothing worth keeping.
            if known is not None and known["status"] not in HEALTHY and known["revision"] == 1:
                config.uninstall(name, timeout=HELM_TIMEOUT)
                known = None
            _upgrade_definitions(target)
            act = config.install if known is None else config.upgrade
            release = act(chart, name, values, timeout=HELM_TIMEOUT)
        except helm_python.HelmError as error:
            raise DevClusterError(f"helm could not install {chart}: {error}") from error
    return int(release["revision"])


def _upgrade_definitions(target: Target) -> None:
    """Apply CRDs that are there already: Helm installs them once and never upgrades them.

    Helm's manager of fields is called like the program that it runs in. Applying under the same
    name lets a later install of a changed CRD succeed, which otherwise ends in a conflict.
    """
    program = Path("/proc/self/cmdline").read_bytes().partition(b"\0")[0].decode()
    for path in sorted((settings.CHART / "crds").glob("*.yaml")):
        definition = yaml.safe_load(path.read_text(encoding="utf-8"))
        if target.document("crd", definition["metadata"]["name"]):
            target.apply(definition, manager=Path(program).name)


def upload_checkpoint(session: Session, report: Report) -> str:
    """Copy the checkpoint into the claim."""
    report("a short-lived pod that takes the files")
    mmctl = str(Path(sys.executable).parent / "mmctl")
    command = [mmctl, "upload", str(session.options.family.checkpoint), "--claim", settings.CLAIM]
    command += ["--path", session.options.family.model, "--namespace", settings.DEMO_NAMESPACE]
    command += ["--image", session.image_reference("operator")]
    words = run_program(command, session.target.environment, None, UPLOAD_TIMEOUT)
    return words.strip().splitlines()[-1] if words.strip() else "done"
