"""Can a user read the pages? Exits 1 where one is too long for that.

User pages are README.md and what is written by hand in docs/start, docs/tasks, docs/reference,
docs/runbooks and docs/index.md. Generated pages are tables to search in, pages of docs/design,
docs/decisions and docs/studies are for those who change the project: they are not counted.
"""

import re
import sys
from pathlib import Path
from typing import Final

WORDS: Final = 50_000
"""All user pages together."""
LINES: Final = 200
"""A page."""
CHARACTERS: Final = 120
"""A line outside code and tables."""
SENTENCE: Final = 40
"""Words of a sentence, those of a cell of a table, too."""
MEAN: Final = 25
"""Mean words of the sentences of a page."""

_LABEL: Final = 3
"""Words of a heading or a cell, which do not count in the mean."""

FOLDERS: Final = ("docs/start", "docs/tasks", "docs/reference", "docs/runbooks")
_FENCED: Final = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_CODE: Final = re.compile(r"`[^`]*`")
_END: Final = re.compile(r"(?<=[.!?])[)\"*]*\s+")
_BLOCK: Final = re.compile(
    r"\n\s*\n|\n(?=\s*(?:[-*|#>]|\d+\.)\s)|(?<=\S) ?\| ?|^\| ?", re.MULTILINE
)


def user_pages(root: Path) -> list[Path]:
    """Return the pages that are counted."""
    pages = [root / "README.md", root / "docs" / "index.md"]
    for folder in FOLDERS:
        pages += sorted((root / folder).glob("*.md"))
    return [page for page in pages if page.exists() and "<!-- GENERATED" not in _text(page)[:400]]


def sentences(text: str) -> list[str]:
    """Return the sentences of a page: a piece of code is one word, a cell has its own."""
    prose = _CODE.sub("code", _LINK.sub(r"\1", _COMMENT.sub("", _FENCED.sub("\n\n", text))))
    blocks = (" ".join(block.split()) for block in _BLOCK.split(prose))
    parts = (part.strip(" #|*->") for block in blocks for part in _END.split(block))
    return [part for part in parts if re.search(r"[A-Za-z]{2}", part)]


def judge(name: str, text: str) -> list[str]:
    """Return what is above a limit in one page."""
    found: list[str] = []
    lines = text.splitlines()
    if len(lines) > LINES:
        found.append(f"{name}: {len(lines)} lines, at most {LINES}")
    hidden = _FENCED.sub(lambda block: "\n" * block[0].count("\n"), text).splitlines()
    for number, line in enumerate(hidden, 1):
        if len(line) > CHARACTERS and not line.lstrip().startswith("|"):
            found.append(f"{name}:{number}: {len(line)} characters")
    lengths = {part: len(part.split()) for part in sentences(text)}
    for part, words in lengths.items():
        if words > SENTENCE:
            found.append(f"{name}: {words} words: {part[:70]} ...")
    full = [words for words in lengths.values() if words > _LABEL]
    if full and sum(full) / len(full) > MEAN:
        found.append(f"{name}: {sum(full) / len(full):.1f} words a sentence")
    return found


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def main() -> int:
    """Print what is above a limit; return 1 when something is."""
    root = Path(__file__).resolve().parent.parent
    pages = user_pages(root)
    found = [one for page in pages for one in judge(page.relative_to(root).as_posix(), _text(page))]
    words = sum(len(_text(page).split()) for page in pages)
    if words > WORDS:
        found.append(f"user pages: {words} words, at most {WORDS}")
    print("\n".join([*found, f"{len(pages)} user pages, {words} words"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
