"""Backend PyTorch: the server writes prompts by the checkpoint's template; a build must know it."""

import json
from pathlib import Path

import pytest

from mm_runtime.engine_build.unknown_prompt import unknown_prompt

DATED = "{{ strftime_now('%d %b %Y') }}{{ messages[0]['content'] }}"


@pytest.mark.parametrize(
    ("template", "words"),
    [
        pytest.param("{{ messages[0]['content'] }}", None, id="known"),
        pytest.param(DATED, "date of the day", id="dated"),
        pytest.param(None, "no chat template", id="none"),
    ],
)
def test_a_prompt_that_is_not_known_is_named(
    tmp_path: Path, template: str | None, words: str | None
) -> None:
    """Otherwise a pod could differ from its checkpoint by its prompt alone, and never be Ready."""
    content = {} if template is None else {"chat_template": template}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(content))
    found = unknown_prompt(tmp_path)
    assert (found is None) == (words is None)
    assert (words or "") in (found or "")
