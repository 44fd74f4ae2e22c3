"""The API server dies and comes back: the operator continues with nothing missed."""

from pathlib import Path
from typing import Any

import pytest

from mm_devcluster.cluster import restart_part
from support.absent_kubelet import get
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def observed(api: Api, name: str) -> bool:
    model = get(api, "mmm", name)
    return bool(
        model.get("status", {}).get("observedGeneration") == model["metadata"]["generation"]
    )


def applied(api: Api, model: dict[str, Any]) -> bool:
    return api.apply(model).rstrip().endswith(("created", "configured", "unchanged"))


def test_work_continues_after_an_api_server_died(api: Api, tmp_path: Path) -> None:
    if not api.cluster.name:
        pytest.skip("the cluster is another user's: its API server is not ours to kill")
    with running_operator(api.cluster, tmp_path, api.namespace) as operator:
        for name in ("stays", "goes"):
            api.apply(document(name=name))
        eventually(lambda: observed(api, "stays") and observed(api, "goes"))

        restart_part(api.cluster.name, "kube-apiserver")
        eventually(lambda: "ok" in api.kubectl("get", "--raw", "/readyz"))
        # It may refuse one or the other request for a moment.
        eventually(lambda: api.kubectl("delete", "mmm", "goes", "--wait=false"))
        eventually(lambda: applied(api, document({"replicas": 2}, name="stays")))
        eventually(lambda: applied(api, document(name="comes")))

        eventually(lambda: observed(api, "comes"))
        eventually(lambda: observed(api, "stays"))
        eventually(lambda: "goes-inspect" not in " ".join(api.names("jobs")))
        assert operator.process.poll() is None, operator.log.read_text()[-3000:]
