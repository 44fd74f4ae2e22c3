"""Flags of `mm-operator run`."""

import pytest

from mm_operator.settings import parse_settings
from support.cases import cases

RUN = ["run", "--runtime-image=x"]


def test_flags_replace_defaults() -> None:
    settings = parse_settings([*RUN, "--namespace=a", "--namespace=b", "--workers=2"], {})

    assert (settings.runtime_image, settings.namespaces) == ("x", ("a", "b"))
    assert (settings.port, settings.log_level, settings.workers) == (8080, "info", 2)


def test_the_pods_name_identifies_a_replica() -> None:
    one, other = (parse_settings(RUN, {"POD_NAME": "operator-0"}).identity for _ in "ab")

    assert one.startswith("operator-0_")
    assert one != other


@cases(
    "arguments",
    {
        "no-command": [],
        "no-image": ["run"],
        "no-number": ["run", "--runtime-image=x", "--port=http"],
        "no-price": ["run", "--runtime-image=x", "--gpu-hour-price=NVIDIA-L4=cheap"],
        "tracing-by-grpc": ["run", "--runtime-image=x", '--tracing={"endpoint": "grpc://c:4317"}'],
        "more-than-all": [
            "run",
            "--runtime-image=x",
            '--tracing={"endpoint": "http://c", "samplingRatio": 2}',
        ],
        "unknown-level": ["run", "--runtime-image=x", "--log-level=loud"],
    },
)
def test_wrong_flags_end_with_code_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_settings(arguments, {})

    assert ended.value.code == 2


@cases(
    "arguments expected",
    {
        "every-namespace": ([], True),
        "named-namespaces": (["--namespace=a"], False),
        "requested": (["--namespace=a", "--watch-nodes"], True),
        "refused": (["--no-watch-nodes"], False),
    },
)
def test_nodes_are_read_where_the_rights_are(arguments: list[str], *, expected: bool) -> None:
    """Nodes belong to no namespace: an operator of named ones needs to be reported that it may."""
    assert expected == parse_settings([*RUN, *arguments], {}).watch_nodes
