"""Do the names in documents and docstrings still exist, and are pages short? Exits 1 otherwise.

Checked are relative links with their anchors and paths (`tests/scenarios/...`, in code quotes) of
Markdown files, commands of mmctl there, and dotted names of our own packages
(`mm_operator.plan.build`) in Markdown and Python. A renamed module breaks this at once instead of
leaving prose that points nowhere.

A page of docs/ has at most 300 lines, an entry of the changelog is one line. Outside tests private
or local functions of at most three lines have no docstring of one line, and the docstring of an
attribute does not begin with "Of". A public function of more than ten lines has a docstring.
"""

import ast
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from mm_ctl.cli import COMMANDS

PACKAGE_HOMES = {
    "mm_api": "crds",
    "mm_ctl": "mmctl",
    "mm_operator": "operator",
    "mm_runtime": "runtime",
    "mm_devcluster": "devcluster",
    "mm_edge": "edge",
    "mm_lab": "lab",
    "mm_observability": "observability",
    "mm_router": "router",
}
_DOTTED = re.compile(rf"\b(?:{'|'.join(PACKAGE_HOMES)})(?:\.[A-Za-z_]\w*)+")
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_QUOTED = re.compile(r"`([^`\n]+)`")
_FOLDERS = (
    *("bench", "charts", "crds", "devcluster", "docs", "edge", "examples", "lab", "mmctl"),
    *("observability", "operator", "requirements", "router", "runtime", "tests", "tools"),
)
_PATH = re.compile(rf"(?<![\w./$~-])(?:{'|'.join(_FOLDERS)})/[\w./*-]+")
_COMMAND = re.compile(r"(?:`|^)mmctl ([a-z][a-z-]+)", re.MULTILINE)
_HISTORY = ("CHANGELOG.md", "docs/decisions/", "docs/studies/")
"""What was: commands that went are named."""

_OTHER_PATHS = ("docs/design/planning-sources.md",)
"""Names files of upstream."""

PAGE_LINES = 300
LONG_PAGES = {
    "docs/reference/api-status.md": "generated: the status is one object",
}
"""Page -> why it may be longer. Studies (docs/studies) are tables of measurements: exempt, too."""
ENTRY_CHARACTERS = 200
SHORT_LINES = 3
"""A function of so few lines needs no sentence that repeats it."""
LONG_LINES = 10
"""A public function of more lines has a docstring."""
_SOURCES = (*PACKAGE_HOMES.values(), "tools")


def resolves(root: Path, dotted: str) -> bool:
    """Return whether `dotted` is a module, or a name that its module defines at top level."""
    package, *rest = dotted.split(".")
    path = root / PACKAGE_HOMES[package] / package
    while rest and (path / rest[0]).is_dir():
        path /= rest.pop(0)
    if not rest:
        return path.is_dir()
    module = path / f"{rest[0]}.py"
    if module.is_file():
        names = rest[1:]
    else:
        module, names = path / "__init__.py", rest
    return module.is_file() and (not names or names[0] in _top_level_names(module))


def _top_level_names(module: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
    return names


def broken_names(root: Path, path: Path) -> list[str]:
    """Return one line per dotted name in `path` that resolves to nothing."""
    text = path.read_text(encoding="utf-8")
    missing = sorted({name for name in _DOTTED.findall(text) if not resolves(root, name)})
    if path.suffix == ".md" and not path.relative_to(root).as_posix().startswith(_HISTORY):
        missing += sorted(f"mmctl {name}" for name in {*_COMMAND.findall(text)} - {*COMMANDS})
    return [f"{path.relative_to(root)}: {name} does not exist" for name in missing]


def broken_links(root: Path, path: Path) -> list[str]:
    """Return one line per relative Markdown link in `path` whose file or anchor is missing."""
    found: list[str] = []
    for target, anchor in _LINK.findall(path.read_text(encoding="utf-8")):
        if "://" in target or target.startswith("mailto:") or not (target or anchor):
            continue
        page = path.parent / target if target else path
        if not page.exists():
            found.append(f"{path.relative_to(root)}: link to {target}, which does not exist")
        elif anchor and page.suffix == ".md" and anchor not in _anchors(page):
            found.append(f"{path.relative_to(root)}: {target} has no heading #{anchor}")
    return found


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub forms them."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(text)
    }


def long_page(root: Path, path: Path) -> list[str]:
    """Return a line when a page of docs/ is too long to be read."""
    name = path.relative_to(root).as_posix()
    lines = len(path.read_text(encoding="utf-8").splitlines())
    exempt = name in LONG_PAGES or name.startswith("docs/studies/")
    if not name.startswith("docs/") or exempt or lines <= PAGE_LINES:
        return []
    return [f"{name}: {lines} lines, at most {PAGE_LINES}: split it"]


def long_entries(root: Path, path: Path) -> list[str]:
    """Return one line per entry of a changelog that is longer than a line."""
    return [
        f"{path.relative_to(root)}:{number}: an entry is one line of {ENTRY_CHARACTERS} characters"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line.startswith("  ") or (line.startswith("- ") and len(line) > ENTRY_CHARACTERS)
    ]


def broken_paths(root: Path, path: Path) -> list[str]:
    """Return one line per path of this repository, in code quotes of Markdown, that is missing.

    A `*` stands for any name. A path counts from the root or from the document's folder.
    """
    quoted = _QUOTED.findall(path.read_text(encoding="utf-8"))
    named = {one.rstrip(".") for text in quoted for one in _PATH.findall(text)}
    return [
        f"{path.relative_to(root)}: {one} does not exist"
        for one in sorted(named)
        if not any(any(folder.glob(one)) for folder in (root, path.parent))
    ]


def misplaced_docstrings(name: str, text: str) -> list[str]:
    """Return one line per docstring that is needless, or missing."""
    found: list[str] = []

    def visit(node: ast.AST, *, hidden: bool) -> None:
        body = getattr(node, "body", [])
        for before, after in pairwise(body) if isinstance(body, list) else ():
            assigned = isinstance(before, (ast.Assign, ast.AnnAssign))
            if assigned and _string(after).startswith("Of "):
                found.append(f'{name}:{after.lineno}: begins with "Of": say what the attribute is')
        for child in ast.iter_child_nodes(node):
            inner = hidden
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                special = child.name == "__call__"
                private = not special and (hidden or child.name.startswith("_"))
                short = len(child.body) > 1 and _lines_after_docstring(child) <= SHORT_LINES
                docstring = ast.get_docstring(child)
                if private and short and docstring is not None and "\n" not in docstring:
                    found.append(f"{name}:{child.lineno}: {child.name} is short: no docstring")
                long = (child.end_lineno or 0) - child.lineno > LONG_LINES
                if long and docstring is None and not (private or child.name.startswith("__")):
                    found.append(f"{name}:{child.lineno}: {child.name} is long: say what it does")
                inner = True
            elif isinstance(child, ast.ClassDef):
                inner = hidden or child.name.startswith("_")
            visit(child, hidden=inner)

    visit(ast.parse(text), hidden=False)
    return found


def _string(node: ast.stmt) -> str:
    match node:
        case ast.Expr(ast.Constant(str(text))):
            return text
    return ""


def _lines_after_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or 0) - function.body[1].lineno + 1


def main() -> int:
    """Check every tracked Markdown and Python file; return 1 when something is wrong."""
    root = Path(__file__).resolve().parent.parent
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.md", "*.py"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    problems: list[str] = []
    for name in filter(None, listed.split("\0")):
        path = root / name
        if not path.exists():
            continue
        problems += broken_names(root, path)
        if path.suffix == ".py" and name.startswith(_SOURCES):
            problems += misplaced_docstrings(name, path.read_text(encoding="utf-8"))
        if path.suffix == ".md":
            problems += broken_links(root, path)
            problems += broken_paths(root, path) if name not in _OTHER_PATHS else []
            problems += long_page(root, path)
            problems += long_entries(root, path) if name == "CHANGELOG.md" else []
    print("\n".join(problems)) if problems else None
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
