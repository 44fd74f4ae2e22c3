"""The committed profile of the demo model is what its committed measurements say."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from mm_lab.simulation import ServiceProfile

RESULTS = Path(__file__).parents[3] / "bench" / "autoscaling" / "results"


def test_the_profile_is_fitted_to_the_measured_medians() -> None:
    """Seconds of a prompt token and of a decoding step are slopes through the measured points."""
    measured = json.loads((RESULTS / "demo.json").read_text(encoding="utf-8"))["cpu_seconds"]
    text = (RESULTS / "demo-profile.yaml").read_text(encoding="utf-8")
    profile = ServiceProfile(**yaml.safe_load(text))

    prompts = measured["prompt_by_tokens"]
    token, _ = np.polyfit([int(one) for one in prompts], list(prompts.values()), 1)
    batches = measured["decode_by_batch"]
    _, step = np.polyfit([int(one) for one in batches], list(batches.values()), 1)

    assert profile.text_token_seconds == pytest.approx(token)
    assert profile.step_seconds == pytest.approx(step)
