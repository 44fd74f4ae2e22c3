"""Write the chart's dashboards from observability/mm_observability.

python tools/generate_dashboards.py           write
python tools/generate_dashboards.py --check   exit 1 when a file is not what the code says
"""

import json
import re
import sys
from pathlib import Path

from grafana_foundation_sdk.builders import dashboard, text
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.text import TextMode

from generated_files import settle
from mm_observability.dashboards.dashboard import every_dashboard
from mm_observability.dashboards.render import to_json

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("charts") / "multimodal-operator" / "files" / "dashboards"
RUNBOOKS = ROOT / "docs" / "runbooks"
TITLE = re.compile(r"# .*\n\n")
LINK = re.compile(r"\[([^]]+)]\((?!https:)[^)]+\)")
"""To a page of this repository, which Grafana does not have."""


def files() -> dict[Path, str]:
    """Return every generated file with its content, relative to the repository."""
    boards = {each.uid: to_json(each) for each in every_dashboard()}
    boards["multimodal-runbooks"] = runbooks()
    return {FOLDER / f"{uid}.json": content for uid, content in boards.items()}


def runbooks() -> str:
    """Return the dashboard whose panels are the runbooks, to which the chart's links lead."""
    board = dashboard.Dashboard("Multimodal / Runbooks").uid("multimodal-runbooks")
    board.tags(["multimodal"]).readonly()
    board.description("What to do about each alert: first how to relieve users.")
    for number, path in enumerate(sorted(RUNBOOKS.glob("*.md")), start=1):
        words = LINK.sub(r"*\1*", TITLE.sub("", path.read_text(encoding="utf-8"), count=1))
        panel = text.Panel().title(path.stem).id(number).span(24).height(16)
        board.with_panel(panel.mode(TextMode.MARKDOWN).content(words))
    content = json.loads(json.dumps(board.build(), cls=JSONEncoder))
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


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
