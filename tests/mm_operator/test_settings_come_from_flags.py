"""Flags and environment of `mm-operator run`."""

import pytest

from mm_operator.settings import parse_settings

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


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="no-command"),
        pytest.param(["run"], id="no-image"),
        pytest.param(["run", "--runtime-image=x", "--port=http"], id="no-number"),
        pytest.param(["run", "--runtime-image=x", "--log-level=loud"], id="unknown-level"),
    ],
)
def test_wrong_flags_end_with_code_2(arguments: list[str]) -> None:
    """A damaged command line is a usage error."""
    with pytest.raises(SystemExit) as ended:
        parse_settings(arguments, {})

    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param([], True, id="every-namespace"),
        pytest.param(["--namespace=a"], False, id="named-namespaces"),
        pytest.param(["--namespace=a", "--watch-nodes"], True, id="requested"),
        pytest.param(["--no-watch-nodes"], False, id="refused"),
    ],
)
def test_nodes_are_read_where_the_rights_are(arguments: list[str], *, expected: bool) -> None:
    """Nodes belong to no namespace: an operator of named ones needs to be reported that it may."""
    assert expected == parse_settings(["run", *arguments], IMAGE).watch_nodes
