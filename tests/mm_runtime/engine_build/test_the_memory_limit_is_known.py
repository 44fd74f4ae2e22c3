"""A build knows how much memory its container may have."""

from pathlib import Path

from mm_runtime.engine_build.memory_limit import memory_limit
from support.cases import cases


@cases(
    "files expected",
    {
        "v2": ({"memory.max": "536870912\n"}, 512 << 20),
        "v2-without": ({"memory.max": "max\n"}, None),
        "v1": ({"memory/memory.limit_in_bytes": "536870912\n"}, 512 << 20),
        "hidden": ({}, None),
    },
)
def test_the_limit_of_a_container_is_known(
    tmp_path: Path, files: dict[str, str], expected: int | None
) -> None:
    """Both versions of control groups say it in a file of their own."""
    for name, text in files.items():
        path = tmp_path / "sys" / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    assert expected == memory_limit(tmp_path)
