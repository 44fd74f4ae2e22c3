"""KEDA's own definitions, as its Go module has them, on a real API server.

They are copies of `config/crd/bases` of github.com/kedacore/keda/v2 in the version that
`devcluster/keda/go.mod` names (Apache License 2.0); `make keda-test` compares them with the module.
"""

from mm_devcluster.cluster import ClusterInfo
from support.clusters import kubectl
from support.eventually import eventually
from support.scripts import ROOT

FOLDER = ROOT / "tests" / "support" / "keda"
FILES = tuple(sorted(FOLDER.glob("keda.sh_*.yaml")))


def install_keda_definitions(cluster: ClusterInfo) -> None:
    for file in FILES:
        kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", str(file))
    plurals = {file.stem.removeprefix("keda.sh_") for file in FILES}
    known = ("api-resources", "--api-group=keda.sh", "--no-headers", "--cached=false")

    # Discovery learns of a new kind a moment after it is established.
    def found() -> bool:
        rows = kubectl(cluster, *known).splitlines()
        return plurals <= {row.split()[0] for row in rows}

    eventually(found)
