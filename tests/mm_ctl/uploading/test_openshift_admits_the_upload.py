"""The pod of `mmctl upload` is one that OpenShift's restricted-v2 admits, by itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mm_devcluster.cluster import ClusterInfo
from support.clusters import kubectl, namespace
from support.restricted_v2 import restricted_v2

pytestmark = pytest.mark.cluster

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "checkpoints"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
REFUSED = "restricted-v2: user outside of the namespace's range"
ADMITTED = "the upload pod does not run (Pending)"
"""No node is there: the API server took the pod, and it was deleted again."""


@pytest.mark.parametrize(
    ("annotated", "options", "expected"),
    [
        pytest.param(True, (), ADMITTED, id="openshift"),
        pytest.param(False, (), REFUSED, id="no-sign-of-openshift", marks=pytest.mark.slow),
        pytest.param(
            False,
            ("--user-ids", "Namespace"),
            ADMITTED,
            id="as-the-user-says",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            True, ("--user-ids", "Fixed"), REFUSED, id="against-the-sign", marks=pytest.mark.slow
        ),
    ],
)
def test_the_pod_is_admitted(
    control_plane: ClusterInfo,
    tmp_path: Path,
    *,
    annotated: bool,
    options: tuple[str, ...],
    expected: str,
) -> None:
    (tmp_path / "config.json").write_text("{}")
    with namespace(control_plane, "upload-ids") as name, restricted_v2(control_plane, name) as api:
        if annotated:
            mark = "openshift.io/sa.scc.uid-range=1000680000/10000"
            kubectl(control_plane, "annotate", "namespace", name, mark)
        kubectl(control_plane, "-n", name, "apply", "-f", "-", stdin=json.dumps(CLAIM))
        command = [str(Path(sys.executable).with_name("mmctl")), "upload", str(tmp_path)]
        command += ["--claim", "checkpoints", "--image", "example.org/image:1", "--timeout", "1"]
        command += ["-n", name, "--kubeconfig", str(control_plane.kubeconfig), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert expected in done.stderr, done.stderr
        assert done.returncode != 0
        assert api.kubectl("get", "pods", "-o", "name") == ""
