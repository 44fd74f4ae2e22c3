"""The table of what depends on the family says what the processors of its checkpoints do."""

import pytest

from family_parameters import SEVERAL, cells, families
from mm_api.families import FAMILIES, SERVED
from mm_api.families.image_layouts.layout import ACTS, REFUSED
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors import load_processor
from mm_runtime.serving.preprocess.processors.prepared import NO_VIDEO, Detail, ImageProcessor
from support.families.images import CASES
from support.families.shared import shared_family
from support.representatives import others_are_slow

REPRESENTATIVES = ("llava-onevision", "qwen2-vl")
"""Of each way in which a cell depends on more than the layout."""


def acts(processor: ImageProcessor, detail: Detail, count: int) -> bool:
    try:
        processor.with_detail(detail, count)
    except RequestError:
        return False
    return True


def word(processor: ImageProcessor, detail: Detail) -> str:
    alone, several = acts(processor, detail, 1), acts(processor, detail, 2)
    if several and not alone:
        return SEVERAL
    assert alone == several
    return ACTS if alone else REFUSED


@pytest.mark.parametrize("family", others_are_slow(sorted(CASES), *REPRESENTATIVES))
def test_cells_are_what_processors_do(
    family: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    processor = load_processor(shared_family(tmp_path_factory, family).engine)
    assert processor is not None
    found = cells(FAMILIES[family])

    seen = {"low": word(processor, "low"), "high": word(processor, "high")}
    assert {detail: found[detail] for detail in seen} == seen
    assert (FAMILIES[family].layout.video_features is not None) == _reads_videos(processor)


def _reads_videos(processor: ImageProcessor) -> bool:
    try:
        processor.video_rows(2, (56, 56))
    except RequestError as error:
        return error.args != NO_VIDEO.args
    return True


def test_every_layout_has_a_checkpoint() -> None:
    """But for processors of the checkpoint's own, which take no detail whatever it says."""
    shown = {FAMILIES[name].layout.processor for name in CASES}
    computed = [family for family in families() if family.sees and family.name in SERVED]
    assert {family.layout.processor for family in computed} - shown <= {"own"}
    own = [one for one in computed if not one.has_tower]
    assert {cells(one)["low"] for one in own} == {REFUSED}
