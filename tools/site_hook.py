"""What the site needs beside mkdocs.yml: the folders' pages in the navigation, GitHub's anchors.

A link out of docs/ becomes text: the site has no copy of sources. `tools/check_docs.py` checks it.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any, Final

FOLDERS: Final = {"Runbooks": "runbooks", "Decisions": "decisions", "Studies": "studies"}
"""Section of the navigation -> its folder of docs/, all of whose pages it lists."""
_OUTSIDE: Final = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#\s]*)(?:#[^)\s]*)?\)")


def slug(heading: str, _separator: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def on_config(config: Any) -> Any:
    """Fill the navigation: the sections that are folders, and pages that a section lacks."""
    docs = Path(config["docs_dir"])
    listed = Path(config["config_file_path"]).read_text(encoding="utf-8")
    for section in config["nav"]:
        for name, entries in section.items():
            if not isinstance(entries, list):
                continue
            section[name] = [
                {entry: _pages(docs, FOLDERS[entry])} if str(entry) in FOLDERS else entry
                for entry in entries
            ] + [page for page in _pages(docs, name.lower()) if page not in listed]
    return config


def _pages(docs: Path, folder: str) -> list[str]:
    return [page.relative_to(docs).as_posix() for page in sorted((docs / folder).glob("*.md"))]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the page with links out of docs/ as text."""
    folder = PurePosixPath(page.file.src_uri).parent

    def outside(link: re.Match[str]) -> str:
        depth = len(folder.parts) - link[2].count("../")
        if depth >= 0:
            return link[0]
        path = link[2].replace("../", "")
        return link[1] if f"`{path}`" == link[1] or path in link[1] else f"{link[1]} (`{path}`)"

    return _OUTSIDE.sub(outside, markdown)
