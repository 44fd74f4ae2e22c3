"""Flags and environment of `mm-operator run`."""

import pytest

from mm_operator.settings import parse_settings
from support.cases import cases

IMAGE = {"MM_OPERATOR_RUNTIME_IMAGE": "from-environment"}


def test_flags_win_over_the_environment() -> None:
    """A flag replaces what the environment says; the rest has its defaults."""
    settings = parse_settings(["run", "--runtime-image", "from-flag", "--namespace=a"], IMAGE)

    assert (settings.runtime_image, settings.namespaces) == ("from-flag", ("a",))
    assert (settings.port, settings.log_level) == (8080, "info")


def test_the_environment_is_enough() -> None:
    """Every namespace is served unless some are named, and the pod's name identifies a replica."""
    environment = {**IMAGE, "POD_NAME": "operator-0", "MM_OPERATOR_NAMESPACES": "a,b"}
    settings = parse_settings(["run"], environment)

    assert (settings.runtime_image, settings.namespaces) == ("from-environment", ("a", "b"))
    assert settings.identity.startswith("operator-0_")
    assert settings.identity != parse_settings(["run"], environment).identity


@cases(
    "arguments",
    {
        "no-command": [],
        "no-image": ["run"],
        "no-number": ["run", "--runtime-image=x", "--port=http"],
        "unknown-level": ["run", "--runtime-image=x", "--log-level=loud"],
    },
)
def test_wrong_flags_end_with_code_2(arguments: list[str]) -> None:
    """A damaged command line is a usage error."""
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
    assert expected == parse_settings(["run", *arguments], IMAGE).watch_nodes
