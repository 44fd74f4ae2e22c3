"""A machine that cannot run the cluster is reported everything that is missing, once."""

import os
from pathlib import Path

import pytest

from mm_devcluster.errors import MissingRequirementsError
from mm_devcluster.packages import NODE_PACKAGES, Package, describe, missing_packages
from mm_devcluster.preflight import file_system_of, missing_for_node

MOUNTS = """\
/dev/vda / ext4 rw 0 0
overlay /var/tmp overlay rw 0 0
tmpfs /var/tmp/a\\040b tmpfs rw 0 0
"""


def test_an_absent_program_names_its_package_and_its_purpose() -> None:
    package = Package("runc", "no-such-program", "starts their containers")
    assert missing_packages((package,)) == (package,)
    assert describe((package,))[0] == "Debian package runc: starts their containers"


def test_one_message_holds_everything_and_the_other_way() -> None:
    text = str(MissingRequirementsError(("root", *describe(NODE_PACKAGES))))
    expected = ["root", "containerd", "iptables", "apt-get install", "CLUSTER=current"]
    assert [word for word in expected if word not in text] == []


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/home/x", "ext4"), ("/var/tmp/x", "overlay"), ("/var/tmp/a b/x", "tmpfs"), ("/", "ext4")],
    ids=["root", "overlay", "space", "top"],
)
def test_the_disk_below_a_path_is_recognised(path: str, kind: str) -> None:
    """The deepest mount decides, names with spaces too."""
    assert file_system_of(Path(path), MOUNTS) == kind


def test_without_root_the_message_says_only_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert [item.split(":")[0] for item in missing_for_node("x")] == ["root"]


def test_a_directory_too_deep_for_a_socket_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The limit is the kernel's; the message names the directory."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("MM_STATE_DIR", str(tmp_path / ("d" * 100)))
    found = [item for item in missing_for_node("x") if "shorter state directory" in item]
    assert len(found) == 1
