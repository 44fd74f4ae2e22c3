"""The two ends of `mmctl upload` without a cluster between them, and the Secrets of its image."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from mm_ctl.commands.upload import configure, local_digests, target_directory
from mm_ctl.documents import UsageError
from mm_ctl.uploading.pod import digests, upload_pod
from mm_devcluster.cluster import ClusterInfo
from mm_operator.errors import ClusterError
from support.cases import cases
from support.clusters import kubectl, namespace
from support.restricted_v2 import restricted_v2

KUBECTL = """#!{python}
import os, sys
words = sys.argv[sys.argv.index("--") + 1:]
assert sys.argv[1:6] == ["--namespace=a", "exec", "-i", "pod-1", "--container=upload"]
os.environ["PATH"] = "/usr/bin:/bin"
os.execvp(words[0], words)
"""


@pytest.fixture
def local_kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(KUBECTL.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))


def receive(directory: Path, names: list[str], target: Path) -> dict[str, str]:
    return digests(["--namespace=a"], "pod-1", str(target), directory, names)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    root = tmp_path / "checkpoint"
    (root / "deep").mkdir(parents=True)
    for name, size in (("empty", 0), ("block", 512), ("odd", 513), ("deep/large", 300_001)):
        (root / name).write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    return root


@pytest.mark.usefixtures("local_kubectl")
def test_what_arrives_is_what_was_sent(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "link").symlink_to("odd")
    (checkpoint / "odd").chmod(0o600)
    local = local_digests(checkpoint)
    assert receive(checkpoint, sorted(local), tmp_path / "there") == local
    assert local_digests(tmp_path / "there") == local
    assert (tmp_path / "there" / "odd").stat().st_mode & 0o777 == 0o644


@pytest.mark.usefixtures("local_kubectl")
def test_a_second_upload_finds_everything(checkpoint: Path, tmp_path: Path) -> None:
    assert receive(tmp_path, [], checkpoint) == local_digests(checkpoint)


@pytest.mark.usefixtures("local_kubectl")
def test_a_stream_that_breaks_off_leaves_the_old_file(checkpoint: Path, tmp_path: Path) -> None:
    """Half a file never takes the place of an entire one."""
    target = tmp_path / "there"
    target.mkdir()
    (target / "odd").write_bytes(b"old")
    with pytest.raises(ClusterError):
        receive(checkpoint, ["odd", "deep/large", "gone"], target)

    assert (target / "odd").read_bytes() == b"old"
    assert receive(checkpoint, ["odd"], target) == {"odd": local_digests(checkpoint)["odd"]}
    assert list(local_digests(target)) == ["odd"]


@pytest.mark.usefixtures("local_kubectl")
def test_what_the_pod_says_is_the_message(checkpoint: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    with pytest.raises(ClusterError, match="taken"):
        receive(checkpoint, ["deep/large"] * 20, taken)
    (tmp_path / "bin" / "kubectl").unlink()
    with pytest.raises(UsageError, match="there is no kubectl"):
        receive(checkpoint, ["odd"], tmp_path)


@pytest.mark.usefixtures("local_kubectl")
def test_a_file_that_goes_away_meanwhile_is_named(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"were not sent: .*gone"):
        receive(checkpoint, ["odd", "gone"], tmp_path / "there")


@pytest.mark.parametrize("path", ["/etc", "../up", "a/../../b"])
def test_paths_stay_inside_the_claim(path: str) -> None:
    with pytest.raises(UsageError, match="leaves the claim"):
        target_directory(path)


@pytest.mark.parametrize("kind", ["missing", "file", "empty"])
def test_there_must_be_something_to_send(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "file":
        path.write_text("x")
    elif kind == "empty":
        path.mkdir()

    with pytest.raises(UsageError, match=str(path)):
        local_digests(path)


CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "checkpoints"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
ADMITTED = "the upload pod does not run (Pending)"
"""No node is there: the API server took the pod, and it was deleted again."""
OUTSIDE = "restricted-v2: user outside of the namespace's range"
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


def reported(cluster: ClusterInfo, space: str, folder: Path, *options: str) -> str:
    """Run `mmctl upload` on a cluster without nodes and return what it reports."""
    (folder / "config.json").write_text("{}")
    kubectl(cluster, "-n", space, "apply", "-f", "-", stdin=json.dumps(CLAIM))
    command = [str(Path(sys.executable).with_name("mmctl")), "upload", str(folder), *UPLOAD]
    command += ["--timeout", "1", "-n", space, "--kubeconfig", str(cluster.kubeconfig), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    return done.stderr


@pytest.mark.cluster
def test_one_that_is_missing_is_named(control_plane: ClusterInfo, tmp_path: Path) -> None:
    """The kubelet would pull without it, and say that there is no such image."""
    with namespace(control_plane, "upload-secrets") as name:
        given = (control_plane, name, tmp_path, "--image-pull-secret", "registry")
        assert f"there is no Secret registry in namespace {name}" in reported(*given)
        kubectl(control_plane, "-n", name, "create", "secret", "generic", "registry")
        assert ADMITTED in reported(*given)


@pytest.mark.cluster
def test_openshift_admits_the_pod(control_plane: ClusterInfo, tmp_path: Path) -> None:
    """By the namespace's own sign, or as the user says."""
    mark = "openshift.io/sa.scc.uid-range=1000680000/10000"
    with namespace(control_plane, "upload-ids") as name, restricted_v2(control_plane, name) as api:
        given = (control_plane, name, tmp_path)
        assert OUTSIDE in reported(*given)
        assert ADMITTED in reported(*given, "--user-ids", "Namespace")
        kubectl(control_plane, "annotate", "namespace", name, mark)
        assert ADMITTED in reported(*given)
        assert OUTSIDE in reported(*given, "--user-ids", "Fixed")
        assert api.kubectl("get", "pods", "-o", "name") == ""
