"""On a real API server: what a server says of its engine becomes a condition of its model."""

from pathlib import Path
from secrets import randbelow
from typing import Any

import pytest

from mm_api.contract import METRICS_PORT
from mm_api.documents.evaluation import EvaluationReport, FirstDifference
from mm_api.documents.serving_plan import MemoryPools
from mm_runtime.launch.exposition import Exposition
from mm_runtime.settings import Ports
from support.absent_kubelet import built, get, inspected, pods, serving, set_status
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator
from support.ports import free_ports

pytestmark = pytest.mark.cluster

SERVERS = "serving.multimodal.dev/model=llava,app.kubernetes.io/component=server"
POOLS = MemoryPools(cuda_bytes=64 << 20, pinned_bytes=256 << 20, shm_bytes=1)


def loopback() -> str:
    """Return an address of this machine that no one else has: every pod's port is the same."""
    return f"127.{64 + randbelow(190)}.{randbelow(255)}.{2 + randbelow(250)}"


def test_a_wrong_engine_becomes_a_condition_with_its_figures(api: Api, tmp_path: Path) -> None:
    """The API server takes what the pod's server says its gateway found; a good engine ends it."""
    address, said = loopback(), list[EvaluationReport]()
    arguments = ("--server-look-seconds=0.3",)
    with (
        running_operator(api.cluster, tmp_path, api.namespace, arguments=arguments),
        Exposition(
            Ports(address=address, metrics=METRICS_PORT),
            Ports(metrics=free_ports(1)[0]),
            POOLS,
            "llava",
            evaluation=lambda: said[-1] if said else None,
        ),
    ):
        assert "created" in api.apply(document({}, "llava"))
        inspected(api, "llava")
        built(api)
        serving(api, "llava")
        (pod,) = pods(api, SERVERS)
        set_status(api, pod, {"podIP": address, "podIPs": [{"ip": address}]})
        api.reaches("llava", "Degraded", "False")
        fingerprint = get(api, "mmm", "llava")["status"]["plan"]["fingerprint"]
        difference = FirstDifference(
            prompt="What color is it?",
            adapter=0,
            token=2,
            expected="a red",
            answered="a blue",
            distance=3.21,
            bound=0.1,
        )
        figures: dict[str, Any] = {
            "fingerprint": fingerprint,
            "prompts": 8,
            "tokens": 20,
            "near_ties": 1,
        }
        wrong = EvaluationReport(
            **figures, agreed=18, failed_prompts=2, first_difference=difference
        )
        said.append(wrong)

        where = "'What color is it?' (adapter 0), token 2"
        api.reaches("llava", "Degraded", "EvaluationFailed", where)
        written = get(api, "mmm", "llava")["status"]["evaluation"]
        assert EvaluationReport.model_validate(written) == wrong

        said.append(EvaluationReport(**figures, agreed=20, failed_prompts=0))
        api.reaches("llava", "Degraded", "AsExpected")
        assert "firstDifference" not in get(api, "mmm", "llava")["status"]["evaluation"]
