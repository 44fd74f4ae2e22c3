"""Examples load in NVIDIA's images and in vLLM, whose versions of transformers are older than 5."""

from pathlib import Path

import pytest

from published_layout import published

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("name", ["tiny-llava", "tiny-qwen2-5-vl", "tiny-t5"])
def test_nothing_is_left_to_rewrite(name: str, tmp_path: Path) -> None:
    """`tools/published_layout.py` changes neither a configuration nor the name of a weight."""
    example = EXAMPLES / name / "checkpoint"
    copy = published(example, tmp_path / "copy")
    for file in example.iterdir():
        assert (copy / file.name).read_bytes() == file.read_bytes(), file.name
