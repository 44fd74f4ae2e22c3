"""Write the chart's dashboards from observability/mm_observability.

python tools/generate_dashboards.py           write
python tools/generate_dashboards.py --check   exit 1 when a file is not what the code says
"""

import sys
from pathlib import Path

from generated_files import settle
from mm_observability.dashboards.dashboard import every_dashboard
from mm_observability.dashboards.render import to_json

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("charts") / "multimodal-operator" / "files" / "dashboards"


def files() -> dict[Path, str]:
    """Return every generated file with its content, relative to the repository."""
    return {FOLDER / f"{dashboard.uid}.json": to_json(dashboard) for dashboard in every_dashboard()}


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or check; return the exit code."""
    wanted = {root / name: content for name, content in files().items()}
    stale = settle(wanted, arguments, root)
    for path in sorted(set((root / FOLDER).glob("*")) - set(wanted)):
        if arguments == ["--check"]:
            print(f"{path.relative_to(root)} is not generated from anything: delete it")
            stale = 1
        else:
            path.unlink()
            print(f"deleted {path.relative_to(root)}")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
