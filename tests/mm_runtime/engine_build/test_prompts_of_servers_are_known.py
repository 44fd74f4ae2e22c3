"""Backend PyTorch: the server writes prompts by the checkpoint's template; a build must know it."""

import json
from pathlib import Path

from mm_runtime.engine_build.unknown_prompt import unknown_prompt
from support.cases import cases

DATED = "{{ strftime_now('%d %b %Y') }}{{ messages[0]['content'] }}"


@cases(
    "template words",
    {
        "known": ("{{ messages[0]['content'] }}", None),
        "dated": (DATED, "date of the day"),
        "none": (None, "no chat template"),
    },
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
