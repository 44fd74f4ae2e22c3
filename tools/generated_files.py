"""What every generator ends with: write the files whose content changed, or only name them."""

from collections.abc import Mapping, Sequence
from pathlib import Path


def settle(files: Mapping[Path, str], arguments: Sequence[str], root: Path) -> int:
    """Write the files; with `--check` write nothing and name those that differ.

    Args:
        files: absolute path -> content.
        arguments: the command line of the generator, without its name.
        root: names are printed relative to it.

    Returns:
        The exit code: 1 when `--check` found a stale file.
    """
    stale = 0
    for path, content in files.items():
        if path.is_file() and path.read_text(encoding="utf-8") == content:
            continue
        name = path.relative_to(root)
        if list(arguments) == ["--check"]:
            print(f"{name} is stale: run `make generate`")
            stale = 1
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        print(f"wrote {name}")
    return stale
