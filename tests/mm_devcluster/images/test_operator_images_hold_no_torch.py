"""The operator's image is small: its pinned environment holds no engine."""

import re

from mm_devcluster.images.catalogue import OPERATOR
from mm_devcluster.images.sources import ROOT


def test_the_operator_has_no_torch() -> None:
    """The operator's pinned environment holds neither torch nor Triton."""
    text = (ROOT / "requirements" / f"{OPERATOR.environment.name}.txt").read_text()
    assert re.findall(r"^(torch|transformers|nvidia\S*|tritonclient)==", text, re.MULTILINE) == []
