"""When a store is swept of engines that no one uses, by whom, and what a sweep must not touch."""

from collections.abc import Mapping
from typing import Any

from mm_operator.model import PodEnd, Ref
from support.cases import cases
from support.imagined_cluster import ImaginedCluster
from support.models import tiny_facts

HOUR = {"build": {"store": {"gcAfter": "1h"}}}
QUARTER = 15 * 60


def served(cluster: ImaginedCluster, name: str, changes: Mapping[str, Any]) -> None:
    cluster.apply(name, changes)
    cluster.inspected(tiny_facts())
    if any(job.startswith("engine-") for job in cluster.open_jobs()):
        cluster.built()


def sweeps(cluster: ImaginedCluster) -> list[str]:
    return [name for name in cluster.names("Job") if "sweep" in name]


def arguments(cluster: ImaginedCluster) -> list[str]:
    (name,) = sweeps(cluster)
    (container,) = cluster.objects[Ref("Job", name)]["spec"]["template"]["spec"]["containers"]
    found: list[str] = container["args"]
    return found[found.index("--keep") : found.index("--termination-log")]


def swept(cluster: ImaginedCluster) -> None:
    cluster.end("sweep", PodEnd("pod", succeeded=True, exit_code=0))


def fingerprint(cluster: ImaginedCluster, model: str) -> str:
    found: str = cluster.models[model].status["build"]["fingerprint"]
    return found


def test_a_built_model_sweeps_its_store() -> None:
    cluster = ImaginedCluster()
    served(cluster, "quiet", {})
    assert sweeps(cluster) == []
    cluster.apply("quiet", HOUR)
    expected = ["--keep", fingerprint(cluster, "quiet"), "--unused-for", "3600"]
    assert arguments(cluster) == expected


def test_sweeps_come_four_times_in_the_time() -> None:
    """The last sweep's Job stays and says when it was; the next one replaces it."""
    cluster = ImaginedCluster()
    served(cluster, "llava", HOUR)
    swept(cluster)
    seen = [sweeps(cluster)]
    for seconds in (QUARTER - 1, 1):
        cluster.wait(seconds)
        seen.append(sweeps(cluster))
    assert seen == [["llava-sweep-1"], ["llava-sweep-1"], ["llava-sweep-2"]]


@cases(
    "unused_for period",
    {
        "never-more-often-than-each-minute": ("2m", 60),
        "a-quarter": ("8m", 120),
        "each-day-at-least": ("240h", 24 * 3600),
    },
)
def test_sweeps_keep_their_distance(unused_for: str, period: int) -> None:
    """A sweep reads the entire store; and an engine may be unused for months."""
    cluster = ImaginedCluster()
    served(cluster, "llava", {"build": {"store": {"gcAfter": unused_for}}})
    swept(cluster)
    seen = []
    for seconds in (period - 1, 1):
        cluster.wait(seconds)
        seen += sweeps(cluster)
    assert seen == ["llava-sweep-1", "llava-sweep-2"]


def test_engines_of_every_model_are_kept() -> None:
    """What another model uses stays, and so does what pods still serve during a rebuild."""
    cluster = ImaginedCluster()
    served(cluster, "alpha", HOUR)
    cluster.pods_ready("alpha")
    served(cluster, "beta", HOUR | {"engine": {"maxBatchSize": 2}})
    former = fingerprint(cluster, "alpha")
    swept(cluster)
    cluster.apply("alpha", HOUR | {"engine": {"maxBatchSize": 3}})
    cluster.built()
    cluster.wait(QUARTER)
    present = {fingerprint(cluster, name) for name in ("alpha", "beta")}
    kept = set(arguments(cluster)) - {"--keep", "--unused-for", "3600"}
    assert {former, *present} == kept
    assert len(kept) == 3


def test_one_model_sweeps_for_all() -> None:
    cluster = ImaginedCluster()
    for name in ("alpha", "beta"):
        served(cluster, name, HOUR)
    assert sweeps(cluster) == ["alpha-sweep-1"]
    cluster.delete("alpha")
    assert sweeps(cluster) == ["beta-sweep-1"]


def test_a_failed_sweep_is_tried_again_later() -> None:
    """A sweep is housekeeping: its failure degrades nothing, the next one comes in its time."""
    cluster = ImaginedCluster()
    served(cluster, "llava", HOUR)
    cluster.end("sweep", PodEnd("pod", succeeded=False, exit_code=5))
    assert cluster.conditions("llava")["Degraded"] == "False AsExpected"
    cluster.wait(QUARTER)
    assert sweeps(cluster) == ["llava-sweep-2"]


def test_the_time_of_unused_engines_rolls_no_pod() -> None:
    cluster = ImaginedCluster()
    served(cluster, "llava", {})
    cluster.pods_ready("llava")
    before = cluster.objects[Ref("Deployment", "llava")]
    cluster.apply("llava", HOUR)
    assert cluster.objects[Ref("Deployment", "llava")] == before
