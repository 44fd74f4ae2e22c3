"""`mmctl upload --image-pull-secret`: the pod names Secrets, and they have to be there."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from mm_ctl.commands.upload import configure
from mm_ctl.uploading.pod import upload_pod
from mm_devcluster.cluster import ClusterInfo
from support.cases import cases
from support.clusters import kubectl, namespace

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "checkpoints"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
UPLOAD = ["--claim", "checkpoints", "--image", "example.org/image:1"]


@cases(
    "options expected",
    {
        "none": ([], None),
        "two": (
            ["--image-pull-secret", "a", "--image-pull-secret", "b"],
            [{"name": "a"}, {"name": "b"}],
        ),
    },
)
def test_the_pod_names_them(options: list[str], expected: list[dict[str, str]] | None) -> None:
    parser = argparse.ArgumentParser()
    configure(parser)
    given = parser.parse_args([".", *UPLOAD, *options]).image_pull_secret
    pod = upload_pod("checkpoints", "example.org/image:1", "a", "Fixed", given)

    assert pod["spec"].get("imagePullSecrets") == expected


@pytest.mark.cluster
def test_one_that_is_missing_is_named(control_plane: ClusterInfo, tmp_path: Path) -> None:
    """The kubelet would pull without it, and say that there is no such image."""
    (tmp_path / "config.json").write_text("{}")
    with namespace(control_plane, "upload-secrets") as name:
        kubectl(control_plane, "-n", name, "apply", "-f", "-", stdin=json.dumps(CLAIM))
        command = [str(Path(sys.executable).with_name("mmctl")), "upload", str(tmp_path), *UPLOAD]
        command += ["--image-pull-secret", "registry", "--timeout", "1"]
        command += ["-n", name, "--kubeconfig", str(control_plane.kubeconfig)]

        def reported() -> str:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            return done.stderr

        assert f"there is no Secret registry in namespace {name}" in reported()
        kubectl(control_plane, "-n", name, "create", "secret", "generic", "registry")
        assert "the upload pod does not run (Pending)" in reported()  # no node is there
