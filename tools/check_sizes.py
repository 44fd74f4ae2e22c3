"""Is every Python file small enough to be one concern? Exits 1 and names those that are not.

The budget is CONTRIBUTING.md's: a hard stop at 500 lines per file.
"""

import subprocess
import sys
from pathlib import Path

HARD_STOP_LINES = 500


def oversized(files: list[Path]) -> list[tuple[Path, int]]:
    """Return the files past the hard stop with their number of lines, longest first."""
    counted = [(path, len(path.read_text(encoding="utf-8").splitlines())) for path in files]
    return sorted(
        ((path, lines) for path, lines in counted if lines > HARD_STOP_LINES),
        key=lambda entry: -entry[1],
    )


def tracked_python_files(root: Path) -> list[Path]:
    """Return every Python file that git tracks below `root`."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.py"], cwd=root, check=True, capture_output=True, text=True
    ).stdout
    return [root / name for name in listed.split("\0") if name and (root / name).exists()]


def main() -> int:
    """Print each oversized file; return 1 when there is one."""
    root = Path(__file__).resolve().parent.parent
    found = oversized(tracked_python_files(root))
    for path, lines in found:
        print(f"{path.relative_to(root)}: {lines} lines, at most {HARD_STOP_LINES}: split it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
