"""What outlives its starter keeps no descriptor of it that it does not need."""

import os
from pathlib import Path

from mm_devcluster.launch import spawn


def test_only_descriptors_that_are_kept_are_inherited(tmp_path: Path) -> None:
    """A lease is held on; a lock that the starter was itself started with is not."""
    lease, lock = tmp_path / "lease", tmp_path / "lock"
    kept, inherited = (os.open(path, os.O_RDWR | os.O_CREAT) for path in (lease, lock))
    os.set_inheritable(inherited, True)  # noqa: FBT003 - takes no keyword
    log = tmp_path / "log"
    try:
        files = [f"/proc/self/fd/{descriptor}" for descriptor in (kept, inherited)]
        assert spawn(["/usr/bin/readlink", *files], log, [kept]).wait(60)
    finally:
        os.close(kept)
        os.close(inherited)
    assert log.read_text() == f"{lease}\n"
