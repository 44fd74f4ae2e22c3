"""kwok brings fake nodes to life, so that many objects can be tried without many machines."""

import os

import pytest

from mm_devcluster.cluster import ClusterOptions
from support.clusters import apply, read, running_cluster
from support.eventually import eventually

# Slow: kwok is compiled the first time, 4 CPU-minutes.
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_a_job_completes_on_a_fake_node() -> None:
    """Node, pod and Job behave as real ones do, as far as the API shows."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "fake", "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "100"}},
    }
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "mm.local/none:1"}]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"template": {"spec": pod}},
    }
    options = ClusterOptions(
        name=f"tests-kwok-{os.getpid()}", control_plane_only=True, kwok=True, owner_pid=os.getpid()
    )
    with running_cluster(options) as cluster:
        apply(cluster, node, job)
        succeeded = eventually(lambda: read(cluster, "job", "job")["status"].get("succeeded"))
    assert succeeded == 1
