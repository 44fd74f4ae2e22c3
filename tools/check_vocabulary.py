"""Does the prose use the standard terms of docs/glossary.md? Exits 1 and names words that are out.

python tools/check_vocabulary.py            check
python tools/check_vocabulary.py --update   lower the baseline to what the code has now

Pages, the chart's texts and the code of most folders hold none of these words. Older text is being
rewritten: for its folders `vocabulary_baseline.json` has how many such words they hold,
identifiers, messages and comments together. Their total may only fall; text that moves between
them costs nothing.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
BASELINE: Final = Path("tools/vocabulary_baseline.json")

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
ALLOWED: Final = re.compile(r"\bwhole numbers?\b|\balias=\"[\w ]+\"|--[a-z][a-z-]*", re.IGNORECASE)
"""Phrases that the API conventions of Kubernetes use; names of document fields and flags."""

STRICT: Final = (
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"),
    *("docs/*.md", "charts/*.yaml", "charts/*.tpl", "charts/*.txt", "charts/*.md"),
)
"""Texts without any of the words, folders below included."""
STRICT_CODE: Final = ("crds", "operator", "mmctl", "devcluster", "observability", "tools")
"""Folders whose code is without any of the words, identifiers included."""
DERIVED: Final = frozenset(
    {
        "docs/glossary.md",
    }
)
"""Generated from texts of the code, or quotes them; the list of these words itself."""
RATCHETED: Final = ("runtime",)
"""Folders whose words are counted."""

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
    """Return as many lines as were matched, without text."""
    return "\n" * found[0].count("\n") or " "


def count_in_code(text: str) -> int:
    """Return how many words are out, those within identifiers included."""
    split = _CAMEL.sub(" ", text).replace("_", " ")
    return len(_WORD.findall(ALLOWED.sub(" ", split)))


def counts(root: Path) -> dict[str, int]:
    """Return folder -> number of words that are out."""
    return {
        folder: sum(count_in_code(path.read_text(encoding="utf-8")) for path in _code(root, folder))
        for folder in RATCHETED
    }


def problems_of_code(name: str, text: str) -> list[str]:
    """Return one line per line of code that holds words that are out."""
    return [
        f"{name}:{number}: a word that is out (docs/glossary.md): {line.strip()}"
        for number, line in enumerate(text.splitlines(), 1)
        if count_in_code(line)
    ]


def _code(root: Path, folder: str) -> list[Path]:
    found = _tracked(root, f"{folder}/*.py", f"{folder}/*.md")
    return [path for path in found if path.name != Path(__file__).name]


def risen(now: Mapping[str, int], before: Mapping[str, int]) -> list[str]:
    """Return one line per folder with more words than before; none when the total has not risen."""
    if sum(now.values()) <= sum(before.values()):
        return []
    return [
        f"{folder}: {count} words that are out (docs/glossary.md), {before.get(folder, 0)} before"
        for folder, count in now.items()
        if count > before.get(folder, 0)
    ]


def added(root: Path, base: str = "main") -> list[str]:
    """Return the lines since a branch that bring such words; none where git does not know it."""
    fork = subprocess.run(
        ["git", "merge-base", base, "HEAD"], cwd=root, capture_output=True, text=True, check=False
    )
    if fork.returncode:
        return []
    command = ["git", "diff", "-U0", fork.stdout.strip(), "--", *RATCHETED]
    diff = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return [
        line
        for line in diff.splitlines()
        if line.startswith("+") and not line.startswith("+++") and count_in_code(line)
    ]


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


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Check pages and counts, or lower the baseline; return the exit code."""
    baseline = root / BASELINE
    now = counts(root)
    before = json.loads(baseline.read_text(encoding="utf-8")) if baseline.exists() else now
    problems = risen(now, before)
    problems += added(root) if problems else []
    if arguments == ["--update"] and not problems:
        baseline.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    for path in _tracked(root, *STRICT):
        name = path.relative_to(root).as_posix()
        if name not in DERIVED and "/crds/" not in name:
            problems += problems_of_page(name, path.read_text(encoding="utf-8"))
    for path in (path for folder in STRICT_CODE for path in _code(root, folder)):
        name = path.relative_to(root).as_posix()
        problems += problems_of_code(name, path.read_text(encoding="utf-8"))
    print("\n".join(problems)) if problems else None
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
