"""The kernels of a GPU compute what plain torch does: lengths, unused rows, shared keys, dtypes.

Run with `pytest -m gpu tests/gpu`.
"""

import pytest
import torch

from mm_runtime.reference_engine.fused.kernels import INPUTS, Heads, Kernels, Linear, Stored
from mm_runtime.reference_engine.fused.opening import open_kernels
from mm_runtime.serving.device import open_device
from support.plain_kernels import PlainKernels

pytestmark = pytest.mark.gpu

SLOTS, LENGTH = 5, 700
SHAPES = {
    "one key each, 128": Heads(8, 8, 128, 128**-0.5),
    "seven queries a key, 64": Heads(14, 2, 64, 0.125),
    "two queries a key, 16": Heads(4, 2, 16, 0.25),
    "one key each, 80": Heads(3, 3, 80, 80**-0.5),
}
BOUNDS = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Differences of values around 1, relative above; a wrong row or length differs by far more."""

DECODED = [(4, 0), (0, 1), (699, 2), (63, 4), (64, 3), (-1, 0)]
"""Position and slot of rows: first ones, ends of tiles, a full slot, an unused row."""

PART_SLOT = 3
"""Of a part's rows."""


def seeded(device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(7)


class Case:
    """Rows of a pass with slots that hold values everywhere."""

    def __init__(
        self, rows: list[tuple[int, int]], heads: Heads, dtype: torch.dtype, device: torch.device
    ) -> None:
        chance = seeded(device)

        def random(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=chance, device=device).to(dtype)

        self.heads = heads
        self.products = random(len(rows), heads.width)
        self.turns = torch.randn((LENGTH, heads.size), generator=chance, device=device)
        self.stored = Stored(*(random(SLOTS, heads.keys, LENGTH, heads.size) for _ in range(2)))
        inputs = torch.zeros((len(rows), INPUTS), dtype=torch.int32)
        for at, (position, slot) in enumerate(rows):
            inputs[at] = torch.tensor([0, position, slot, max(position, 0)])
        self.inputs = inputs.to(device)
        self.used = [at for at, (position, _) in enumerate(rows) if position >= 0]

    def computed(self, kernels: Kernels, *, decoded: int) -> list[torch.Tensor]:
        """Return products, keys, values and what was read, of the rows that are used."""
        heads = self.heads
        products = self.products.clone()
        stored = Stored(self.stored.keys.clone(), self.stored.values.clone())
        out = torch.full_like(products[:, : heads.queries * heads.size], 9.0)
        kernels.rotate(products, self.turns, self.inputs, stored, heads)
        kernels.attend(products, self.inputs, stored, heads, out, decoded=decoded)
        # What stands in the place of keys and values afterwards is nothing that is read.
        queries = products[:, : heads.queries * heads.size]
        return [queries[self.used], stored.keys, stored.values, out[self.used]]


def check(
    rows: list[tuple[int, int]], heads: Heads, dtype: torch.dtype, kernels: Kernels, *, decoded: int
) -> None:
    device = open_device("CUDA")
    case = Case(rows, heads, dtype, device)
    found = case.computed(kernels, decoded=decoded)
    wanted = case.computed(PlainKernels(), decoded=decoded)
    for name, one, other in zip(("queries", "keys", "values", "read"), found, wanted, strict=True):
        near = torch.isclose(one.float(), other.float(), atol=BOUNDS[dtype], rtol=BOUNDS[dtype])
        assert near.all(), (name, (~near).sum().item())


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    found = open_kernels(open_device("CUDA"))
    assert found is not None
    return found


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("heads", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("copies", [1, 64], ids=["splits", "no splits"])
def test_decoding_rows(kernels: Kernels, heads: Heads, dtype: torch.dtype, copies: int) -> None:
    """Few rows have their keys read in splits, many do not."""
    rows = DECODED + [(-1, 0)] * (6 * (copies - 1))
    check(rows, heads, dtype, kernels, decoded=len(rows))


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("heads", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(
    "part", [(0, 16, 16), (0, 100, 128), (100, 128, 128), (37, 3, 16), (600, 100, 128)], ids=str
)
def test_rows_of_a_prompt(
    kernels: Kernels, heads: Heads, dtype: torch.dtype, part: tuple[int, int, int]
) -> None:
    """The first of a prompt and later ones, with unused rows after them."""
    start, count, size = part
    rows = [(start + at, PART_SLOT) for at in range(count)]
    rows += [(-1, PART_SLOT)] * (size - count)
    check(rows, heads, dtype, kernels, decoded=0)


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("heads", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("copies", [1, 64], ids=["splits", "no splits"])
@pytest.mark.parametrize("part", [(0, 28, 32), (500, 128, 128), (100, 513, 640)], ids=str)
def test_both(
    kernels: Kernels, heads: Heads, dtype: torch.dtype, copies: int, part: tuple[int, int, int]
) -> None:
    """Decoding rows and a part in one pass: either may have its keys read in splits."""
    decoding = [row for row in DECODED if row[1] != PART_SLOT] + [(-1, 0)] * (6 * (copies - 1))
    start, count, size = part
    rows = [(start + at, PART_SLOT) for at in range(count)]
    rows += [(-1, PART_SLOT)] * (size - count)
    check([*decoding, *rows], heads, dtype, kernels, decoded=len(decoding))


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("width", [64, 5504], ids=str)
def test_norms_and_gates(kernels: Kernels, dtype: torch.dtype, width: int) -> None:
    device = open_device("CUDA")
    chance = seeded(device)
    states, more, products = (
        torch.randn((3, size), generator=chance, device=device).to(dtype)
        for size in (width, width, 2 * width)
    )
    weight = torch.randn(width, generator=chance, device=device).to(dtype)
    found: list[list[torch.Tensor]] = []
    for one in (kernels, PlainKernels()):
        summed, plain, normed, gated = (torch.full_like(states, 9.0) for _ in range(4))
        summed.copy_(states)
        one.add_norm(summed, None, weight, 1e-5, plain)
        one.add_norm(summed, more, weight, 1e-5, normed)
        one.gate(products, gated)
        found.append([plain, summed, normed, gated])
    for name, this, other in zip(("norm", "sum", "after it", "gate"), *found, strict=True):
        assert torch.allclose(this.float(), other.float(), atol=BOUNDS[dtype], rtol=1e-2), name


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("biased", [False, True], ids=["", "biased"])
@pytest.mark.parametrize("rows", [1, 3, 8, 16, 17])
@pytest.mark.parametrize("behind", [0, 16], ids=["", "rows behind"])
@pytest.mark.parametrize("sizes", [(5504, 512), (80, 90)], ids=str)
def test_products(
    kernels: Kernels,
    sizes: tuple[int, int],
    behind: int,
    rows: int,
    dtype: torch.dtype,
    *,
    biased: bool,
) -> None:
    """With gates and without; what is behind the rows is not read, or read in vain, and stays."""
    device = open_device("CUDA")
    chance = seeded(device)
    inputs, outputs = sizes

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=chance, device=device).to(dtype)

    given = torch.full((rows + behind, inputs), torch.nan, dtype=dtype, device=device)[:rows]
    given.copy_(random(rows, inputs))
    linear = Linear(random(outputs, inputs) / inputs**0.5, random(outputs) if biased else None)
    found: list[list[torch.Tensor]] = []
    for one in (kernels, PlainKernels()):
        products = torch.full((rows + 1, outputs), 9.0, dtype=dtype, device=device)
        gated = torch.full((rows + 1, outputs // 2), 9.0, dtype=dtype, device=device)
        one.multiply_gated(given, linear, products[:rows], gated[:rows])
        one.multiply(given, linear, products[:rows])
        found.append([products, gated])
    for name, this, other in zip(("products", "gated"), *found, strict=True):
        assert torch.allclose(this.float(), other.float(), atol=BOUNDS[dtype], rtol=1e-2), name
