"""PURE: the grammar of texts with structures in between, in the dialect of llguidance's lark."""

import json

from mm_runtime.gateway.api.response_format import Structure, TagFormat


def tag_grammar(form: TagFormat) -> str:
    """Return what matches any text in which each trigger begins one of its structures."""
    tags = " | ".join(f"tag_{number}" for number in range(len(form.triggers)))
    rules = [f"start: ({tags})* TEXT", "TEXT: /(.|\\n)*/"]
    for number, trigger in enumerate(form.triggers):
        bodies = " | ".join(
            _body(one, trigger) for one in form.structures if one.begin.startswith(trigger)
        )
        # Lazy: free text ends with the first trigger in it.
        rules += [
            f"open_{number}[lazy]: TEXT {json.dumps(trigger)}",
            f"tag_{number}: open_{number} ({bodies})",
        ]
    return "\n".join(rules) + "\n"


def _body(structure: Structure, trigger: str) -> str:
    """Return what stands behind a trigger; an empty text is none."""
    before, after = structure.begin.removeprefix(trigger), structure.end
    schema = f"%json {json.dumps(structure.json_schema)}"
    parts = (before and json.dumps(before), schema, after and json.dumps(after))
    return " ".join(filter(None, parts))
