"""Types and choices of the options, as upstream's parsers declare them; options.json has them."""

import json
from pathlib import Path
from typing import Any, Final

Option = dict[str, Any]
"""Arguments of `add_argument` that JSON can hold."""

_RECORDED: Final[dict[str, Any]] = json.loads(Path(__file__).with_suffix(".json").read_text())

TOKENIZER_INFO: Final[dict[str, Option]] = _RECORDED["programs"]["tokenizer-info"]


def options_of(program: str, names: frozenset[str]) -> dict[str, Option]:
    own = _RECORDED["one converter, otherwise or alone"].get(program, {})
    declared = _RECORDED["programs"].get(program) or {**_RECORDED["every converter"], **own}
    return {name: declared[name] for name in sorted(names)}
