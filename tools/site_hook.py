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
    """Fill the sections of the navigation that are folders."""
    docs = Path(config["docs_dir"])
    for section in config["nav"]:
        for name, entries in section.items():
            for at, entry in enumerate(entries if isinstance(entries, list) else []):
                if isinstance(entry, str) and entry in FOLDERS:
                    pages = sorted((docs / FOLDERS[entry]).glob("*.md"))
                    listed = [page.relative_to(docs).as_posix() for page in pages]
                    section[name][at] = {entry: listed}
    return config


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
