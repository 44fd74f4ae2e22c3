"""Names of children fit into 63 characters and never meet."""

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mm_operator import names
from support.cases import cases

HEX = "0123456789abcdef" * 4
LONG = "m" * 63
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@cases(
    "expected actual",
    {
        "deployment": ("llava", names.deployment("llava")),
        "encoders": ("llava-encoders", names.encoders("llava")),
        "facts": ("llava-facts", names.facts_config("llava")),
        "inspect": ("llava-inspect-968a412567", names.inspect_job("llava", HEX, 1)),
        "serving": ("llava-serving-0123456789", names.serving_config("llava", HEX)),
        "engine-in-the-operators-store": (
            "engine-0123456789abcdef",
            names.engine_config(HEX, names.STORE_CLAIM, ""),
        ),
        "engine-elsewhere": ("engine-bb46b4641e1af299", names.engine_config(HEX, "mine", "")),
        "build": ("engine-0123-2", names.build_job("engine-0123", 2)),
        "long-name-is-cut": (f"{'m' * 48}-6e80a1cc-facts", names.facts_config(LONG)),
        "no-two-hyphens-at-the-cut": ("a-16b5b636-facts", names.facts_config("a" + "-" * 61 + "b")),
    },
)
def test_names_are_as_written(expected: str, actual: str) -> None:
    """The table is the specification: changing a name orphans children of running models."""
    assert expected == actual


@given(st.from_regex(LABEL, fullmatch=True), st.from_regex(r"[0-9a-f]{64}", fullmatch=True))
def test_every_name_is_a_label(model: str, digest: str) -> None:
    made = (
        names.facts_config(model),
        names.encoders(model),
        names.inspect_job(model, digest, 3),
        names.serving_config(model, digest),
        names.engine_config(digest, model, "path"),
        names.build_job(names.engine_config(digest, model, "path"), 1000),
    )
    assert tuple(name for name in made if not LABEL.fullmatch(name)) == ()


def test_names_that_were_cut_stay_distinct() -> None:
    models = [LONG[:-1] + last for last in "abcdefg"]
    assert len({names.facts_config(model) for model in models}) == 7


def test_inputs_make_distinct_names() -> None:
    made = sorted(
        [
            names.inspect_job("a", HEX, 1),
            names.inspect_job("a", HEX, 2),
            names.inspect_job("a", HEX[::-1], 1),
            names.engine_config(HEX, "one", ""),
            names.engine_config(HEX, "two", ""),
            names.engine_config(HEX, "one", "two"),
            names.engine_config(HEX, names.STORE_CLAIM, ""),
            names.engine_config(HEX, names.STORE_CLAIM, "sub"),
        ]
    )
    assert [one for one, other in pairwise(made) if one == other] == []
