"""A server that cannot use its GPU ends the container with a code and a sentence of their own."""

from pathlib import Path

import pytest

from mm_api.contract import ExitCode
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.base.faults import VARIABLE, Fault, FaultKind
from mm_runtime.errors import ServerFailedError
from mm_runtime.launch.serve import ServerFaults
from support.cases import cases
from support.served import EngineFiles, start_serving


@cases(
    "kind code",
    {
        "memory": (FaultKind.OUT_OF_MEMORY, ExitCode.GPU_OUT_OF_MEMORY),
        "lost": (FaultKind.LOST, ExitCode.GPU_UNUSABLE),
    },
)
def test_the_fault_comes_first(tmp_path: Path, kind: FaultKind, code: ExitCode) -> None:
    """Before the server's last lines: conditions are short."""
    faults = ServerFaults(tmp_path)
    Fault(kind, "5 of 80 bytes are free").report(faults.environment)
    found = faults.explained(ServerFailedError("tritonserver ended; last lines: ..."))

    assert (found.exit_code, str(found)) == (
        code,
        "5 of 80 bytes are free.\ntritonserver ended; last lines: ...",
    )


def test_a_fault_is_of_one_start(tmp_path: Path) -> None:
    faults = ServerFaults(tmp_path)
    Fault(FaultKind.LOST, "lost").report(faults.environment)
    faults.clear()
    error = ServerFailedError("it hangs")

    assert faults.explained(error) is error
    assert faults.environment[VARIABLE].startswith(str(tmp_path))


@pytest.mark.slow
@pytest.mark.triton
@pytest.mark.timeout(300)
def test_a_plan_for_cuda_where_there_is_no_gpu(random_engine: EngineFiles, tmp_path: Path) -> None:
    """The real server: its language model says what is missing, and the command ends with 8."""
    plan = ServingPlan.from_json(random_engine.serving.read_bytes())
    pools = plan.pools.model_copy(update={"pinned_bytes": 0})
    changed = plan.model_copy(update={"device": "CUDA", "pools": pools})
    path = tmp_path / "serving.json"
    path.write_text(changed.to_json())
    with start_serving(random_engine.manifest, path) as served:
        assert served.wait() == ExitCode.GPU_UNUSABLE, served.log
        assert "this process cannot use a GPU" in served.log
