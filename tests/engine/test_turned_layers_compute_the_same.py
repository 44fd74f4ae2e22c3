"""Linear layers with the weights first in the product give what plain ones give."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from mm_runtime.engine.reference.turned import TURNED_ROWS, turn

ROWS = (1, TURNED_ROWS.start - 1, TURNED_ROWS.start, 13, TURNED_ROWS.stop - 1, TURNED_ROWS.stop)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_a_turned_layer_gives_what_the_plain_one_gives(*, rows: int, bias: bool) -> None:
    """Whatever the number of rows, in the same shape, one value after the other."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(24, 40, bias=bias)
    states = torch.randn(rows, 1, 24)
    with torch.inference_mode():
        expected = layer(states)
        turn(torch.nn.Sequential(layer))
        actual = layer(states)
    torch.testing.assert_close(actual, expected)
    assert actual.is_contiguous()


@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_so_many_rows_as_gain_by_it_are_turned(rows: int) -> None:
    """With a bias the plain way is one call, the turned one a product and a sum."""
    layer = torch.nn.Linear(24, 40)
    turn(layer)
    with torch.inference_mode(), profile(activities=[ProfilerActivity.CPU]) as seen:
        layer(torch.randn(rows, 24))
    called = {call.key for call in seen.key_averages()}
    assert (rows in TURNED_ROWS) == ("aten::addmm" not in called)
