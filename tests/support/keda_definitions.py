"""Definitions of optional kinds on a real API server: KEDA's own, and one like LeaderWorkerSet's.

KEDA's are copies of `config/crd/bases` of github.com/kedacore/keda/v2 in the version that
`devcluster/keda/go.mod` names (Apache License 2.0); `make keda-test` compares them with the module.
"""

from pathlib import Path

from mm_devcluster.cluster import ClusterInfo
from support.clusters import kubectl
from support.eventually import eventually
from support.scripts import ROOT

FOLDER = ROOT / "tests" / "support" / "keda"
FILES = tuple(sorted(FOLDER.glob("keda.sh_*.yaml")))


GROUPS = ROOT / "tests" / "support" / "lws" / "leaderworkersets.yaml"


def install_keda_definitions(cluster: ClusterInfo) -> None:
    _install(cluster, "keda.sh", {file.stem.removeprefix("keda.sh_"): file for file in FILES})


def install_group_definition(cluster: ClusterInfo) -> None:
    _install(cluster, "leaderworkerset.x-k8s.io", {GROUPS.stem: GROUPS})


def _install(cluster: ClusterInfo, group: str, files: dict[str, Path]) -> None:
    for file in files.values():
        kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", str(file))
    known = ("api-resources", f"--api-group={group}", "--no-headers", "--cached=false")

    # Discovery learns of a new kind a moment after it is established.
    def found() -> bool:
        rows = kubectl(cluster, *known).splitlines()
        return files.keys() <= {row.split()[0] for row in rows}

    eventually(found)
