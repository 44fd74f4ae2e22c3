"""What is written for a pass is not overwritten by what is written for a later one."""

import pytest
import torch

from mm_runtime.serving.staging import STAGED, Staging

pytestmark = pytest.mark.gpu

WRITTEN = 10 * STAGED
VALUES = 1 << 16
COMPUTED = 4096


def test_arrays_are_written_again_only_when_they_are_copied() -> None:
    """A busy device copies late, and has each value all the same."""
    device = torch.device("cuda", 0)
    target = torch.zeros(VALUES, dtype=torch.int32, device=device)
    matrix = torch.rand(COMPUTED, COMPUTED, device=device)
    staging, seen = Staging(target), []
    for number in range(WRITTEN):
        matrix = (matrix @ matrix).softmax(dim=-1)  # milliseconds, before each copy
        staging.next().fill(number)
        staging.send(VALUES)
        seen.append(target.clone())
    assert [one.unique().tolist() for one in seen] == [[number] for number in range(WRITTEN)]
