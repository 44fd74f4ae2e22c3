"""Does the prose use the standard terms of the glossary? Exits 1 and names words that are out.

python tools/check_vocabulary.py

Pages, the chart's texts and the code hold none of these words: identifiers, messages, comments and
names of files. Strings of examples are left alone: a trained checkpoint knows their words.
"""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

OUT: Final[dict[str, str]] = {
    r"tells?|told|telling": "report, state, show",
    r"asks?|asked|asking": "request, query, require",
    r"whole|wholly": "entire, complete, full",
    r"mend(?:s|ed|ing)?": "repair, fix",
    r"nobody|somebody|anybody|everybody|whoever|whomever": "name the client, user or component",
    r"hears?|heard|hearing": "receive, observe",
    r"crews?": "surge replicas",
    r"borders?": "limit, boundary",
    r"pictures?": "image",
    r"films?": "video",
    r"sounds?": "audio",
    r"anew": "again",
    r"in words": "with a message",
    r"go(?:es)? on|went on|going on": "continue",
}
"""Pattern -> terms to use instead."""
ALLOWED: Final = re.compile(
    r"\bwhole[ -]numbers?\b|\balias=\"[\w ]+\"|--[a-z][a-z-]*|\.tell\(\)"
    r"|\"ask\"|mmctl ask|\"PICTURE[_ ]SIZES\"|\"pictures\":| in words(?=:|\]|\)| if | else )",
    re.IGNORECASE,
)
"""Phrases of Kubernetes' API conventions; names of document fields and flags; a command of mmctl;
Python's position in a file; a tensor of Triton's model `preprocessing`; Python's `in` before a
variable."""

STRICT: Final = (
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"),
    *("docs/*.md", "charts/*.yaml", "charts/*.tpl", "charts/*.txt", "charts/*.md"),
    *("bench/*.md", "examples/*.md", "tests/*.md", "docs/*.json"),
    *("examples/*.yaml", "tests/*.yaml", "tools/*.sh", "Makefile"),
)
"""Texts without any of the words, folders below included."""
STRICT_CODE: Final = (
    *("crds", "edge", "operator", "router", "mmctl", "runtime", "devcluster"),
    *("observability", "tools", "lab", "tests", "bench"),
)
"""Folders whose code is without any of the words, identifiers included."""
STRICT_NAMES: Final = ("examples",)
"""Folders without any of the words in identifiers, comments and docstrings."""
OWN: Final = ("check_vocabulary.py", "test_words_that_are_out_are_found.py")
"""This check and its test."""
_STATEMENT: Final = frozenset({tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT})
"""A string after one of these is a docstring."""
GLOSSARY: Final = "docs/design/words.md"
"""The list of these words itself."""

_WORD: Final = re.compile(rf"\b(?:{'|'.join(OUT)})\b", re.IGNORECASE)
_CODE: Final = re.compile(
    r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->|https?://\S+", re.DOTALL | re.MULTILINE
)
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def words_in_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, word) of Markdown or YAML text, without code, link targets and HTML comments."""
    prose = _CODE.sub(_blank, ALLOWED.sub(_blank, text))
    for found in _WORD.finditer(prose):
        yield prose.count("\n", 0, found.start()) + 1, found[0]


def _blank(found: "re.Match[str]") -> str:
    return "\n" * found[0].count("\n") or " "


def count_in_code(text: str) -> int:
    """Return how many words are out, those within identifiers included."""
    split = _CAMEL.sub(" ", text).replace("_", " ")
    return len(_WORD.findall(ALLOWED.sub(" ", split)))


def problems_of_code(name: str, text: str) -> list[str]:
    """Return one line per line of code that holds words that are out."""
    return [
        f"{name}:{number}: a word that is out (docs/design/words.md): {line.strip()}"
        for number, line in enumerate(text.splitlines(), 1)
        if count_in_code(line)
    ]


def problems_of_names(name: str, text: str) -> list[str]:
    """Return one line per word that is out of identifiers, comments and docstrings."""
    problems, before = [], tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and before in _STATEMENT
        if token.type == tokenize.NAME and count_in_code(token.string):
            problems.append(f"{name}:{token.start[0]}: {token.string} holds a word that is out")
        if is_docstring or token.type == tokenize.COMMENT:
            problems += [
                f"{name}:{token.start[0] + line - 1}: {word!r} is out: {_instead(word)}"
                for line, word in words_in_prose(token.string)
            ]
        if token.type not in {tokenize.COMMENT, tokenize.NL}:
            before = token.type
    return problems


def _code(root: Path, folder: str) -> list[Path]:
    found = _tracked(root, f"{folder}/*.py", f"{folder}/*.md", f"{folder}/*.go")
    return [path for path in found if path.name not in OWN]


def problems_of_page(name: str, text: str) -> list[str]:
    """Return one line per word of a page for users that is out."""
    return [
        f"{name}:{line}: {word!r} is out: {_instead(word)}" for line, word in words_in_prose(text)
    ]


def _instead(word: str) -> str:
    return next(
        terms for pattern, terms in OUT.items() if re.fullmatch(pattern, word, re.IGNORECASE)
    )


def _tracked(root: Path, *patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=root, check=True, capture_output=True, text=True
    ).stdout
    return [root / name for name in listed.split("\0") if name and (root / name).exists()]


def main(root: Path = ROOT) -> int:
    """Check pages and code; return the exit code."""
    problems: list[str] = []
    for path in _tracked(root, *STRICT):
        name = path.relative_to(root).as_posix()
        if name != GLOSSARY and "/crds/" not in name:
            problems += problems_of_page(name, path.read_text(encoding="utf-8"))
    for path in (path for folder in STRICT_CODE for path in _code(root, folder)):
        name = path.relative_to(root).as_posix()
        problems += problems_of_code(name, path.read_text(encoding="utf-8"))
    for path in (path for folder in STRICT_NAMES for path in _code(root, folder)):
        name = path.relative_to(root).as_posix()
        if path.suffix == ".py":
            problems += problems_of_names(name, path.read_text(encoding="utf-8"))
    for path in _tracked(root, "*"):
        name = path.relative_to(root).as_posix()
        if count_in_code(name):
            problems.append(f"{name}: the name of the file holds a word that is out")
    print("\n".join(problems)) if problems else None
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
