"""What ``mm-devcluster status`` prints reports a stranger what is so and what to do."""

import pytest

from mm_devcluster.cli.status import render
from mm_devcluster.status import ClusterStatus, PartStatus, describe

PART = PartStatus("kubelet", True, 4711, 1000.0, 2, -9, 84 << 20, "10.99.0.2:10250")  # noqa: FBT003


@pytest.mark.parametrize(
    ("api", "node", "dns", "words"),
    [
        (False, False, False, "logs kube-apiserver"),
        (True, None, None, "pods stay Pending"),
        (True, False, False, "logs kubelet"),
        (True, True, False, "Service names do not resolve yet"),
        (True, True, True, "Ready: the node runs pods"),
    ],
    ids=["no-api", "no-node", "node-down", "dns-down", "ready"],
)
def test_each_state_has_its_sentence(
    *, api: bool, node: bool | None, dns: bool | None, words: str
) -> None:
    assert words in describe(api_ready=api, node_ready=node, dns_ready=dns)


def test_a_part_shows_since_when_it_runs_and_how_often_it_was_restarted() -> None:
    cluster = ClusterStatus("c", "Ready.", running=True, ready=True, parts=(PART,))
    row = " ".join(render(cluster, now=1090.0).splitlines()[-1].split())
    assert row == "kubelet running, 2 restarts 4711 2m 84 MiB 10.99.0.2:10250"


def test_a_part_that_ended_shows_its_exit_code() -> None:
    part = PartStatus("etcd", False, None, 1000.0, 0, 1, 0, "")  # noqa: FBT003
    cluster = ClusterStatus("c", "It died.", running=False, ready=False, parts=(part,))
    assert "not running (exit code 1)" in render(cluster, now=1001.0)
