"""Write what versions of vLLM take: arguments of `vllm serve`, and classes of checkpoints.

Run by hand, in an environment with vLLM's dependencies, once for each version; the argument is the
folder that its wheel was unpacked in:

    .venv-vllm/bin/python tools/vllm_tables.py 0.26.0 FOLDER

The arguments are those of vLLM's own parser, for CUDA; the classes are the keys of its registry.
"""

import argparse
import ast
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ARGUMENTS = ROOT / "operator/mm_operator/plan/engine/data/vllm_arguments.json"
CLASSES = ROOT / "crds/mm_api/vllm_classes.json"
_MODELS = "_MULTIMODAL_MODELS"
_NUMBERS = {"int": "integer", "human_readable_int": "integer", "float": "number"}

Version = tuple[int, ...]


def main() -> None:
    """Add one version to both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    folder = options.folder.resolve()
    found = (
        (ARGUMENTS, "arguments", arguments_of(folder)),
        (CLASSES, "classes", classes_of(folder)),
    )
    for path, key, rows in found:
        table = json.loads(path.read_text()) if path.exists() else {"versions": [], key: {}}
        path.write_text(as_text(merged(table, key, options.version, rows), key))


def arguments_of(folder: Path) -> dict[str, Any]:
    """Return name without dashes -> kind, or the values that can be chosen, of each argument."""
    os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
    sys.path.insert(0, str(folder))
    platforms: Any = importlib.import_module("vllm.platforms")
    # There is no GPU where this runs.
    platforms._current_platform = importlib.import_module("vllm.platforms.cpu").CpuPlatform()  # noqa: SLF001
    parser = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser()
    # It has moved twice below this folder.
    (path,) = (folder / "vllm/entrypoints").rglob("cli_args.py")
    module = importlib.import_module(".".join(path.relative_to(folder).with_suffix("").parts))

    found: dict[str, Any] = {}
    registered = module.make_arg_parser(parser)._option_string_actions  # noqa: SLF001
    for action in set(registered.values()):
        # 0.33 hides some of an action's names, and takes them all the same.
        names = [name[2:] for name, one in registered.items() if one is action and name[:2] == "--"]
        if not names or names == ["help"]:
            continue
        kind: Any = None
        if action.nargs == 0:  # 0.33 has a class of its own for them
            kind = "toggle" if any(one.startswith("no-") for one in names) else "switch"
        if kind is None:
            several = action.nargs not in {None, "?"}
            number = _NUMBERS.get(getattr(action.type, "__name__", ""), "text")
            kind = "list" if several else choices_of(action) or number
        # The second name of a toggle is its negation; other second names are aliases.
        aliases = [one for one in names if kind != "toggle" or not one.startswith("no-")]
        found |= dict.fromkeys(aliases, kind)
    return found


def choices_of(action: argparse.Action) -> list[Any]:
    """Return the values that an argument has a choice of, without the one that is no value."""
    return sorted(one for one in action.choices or () if one is not None)


def classes_of(folder: Path) -> dict[str, list[str]]:
    """Return names in `architectures` of config.json that the version serves with media.

    Each with those of `LoRA` and `PP` (pipeline parallelism) that its class supports.
    """
    models = folder / "vllm/model_executor/models"
    tree = ast.parse((models / "registry.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == _MODELS:
            registered = ast.literal_eval(node.value)
            break
    else:
        raise SystemExit(f"the registry in {models} has no {_MODELS}")
    found = {}
    for name, (module, kind) in sorted(registered.items()):
        bases = bases_of(models, module, kind)
        found[name] = [one for one in ("LoRA", "PP") if f"Supports{one}" in bases]
    return found


def bases_of(models: Path, module: str, name: str) -> set[str]:
    """Return the names of all bases of a class, as far as files beside it say."""
    path = models / f"{module}.py"
    if not path.exists():
        return set()
    found, elsewhere = set[str](), dict[str, str]()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            elsewhere |= {(one.asname or one.name): node.module for one in node.names}
        if isinstance(node, ast.ClassDef) and node.name == name:
            for base in (one.id for one in node.bases if isinstance(one, ast.Name)):
                found |= {base, *bases_of(models, elsewhere.get(base, module), base)}
    return found


def merged(table: dict[str, Any], key: str, version: str, rows: dict[str, Any]) -> dict[str, Any]:
    """Return a table with a version, newly read or again: value -> versions that have it."""
    kept: dict[str, list[tuple[str, Any]]] = {}
    for name, spans in table[key].items():
        for first, last, value in spans:
            kept.setdefault(name, []).extend(
                (one, value)
                for one in table["versions"]
                if one != version and number(first) <= number(one) <= number(last)
            )
    for name, value in rows.items():
        kept.setdefault(name, []).append((version, value))
    versions = sorted({*table["versions"], version}, key=number)
    spans = {name: spans_of(pairs, versions) for name, pairs in sorted(kept.items()) if pairs}
    return {"versions": versions, key: spans}


def spans_of(pairs: list[tuple[str, Any]], versions: list[str]) -> list[list[Any]]:
    """Return [first version, last version, value] for each run of versions with one value."""
    values, spans = dict(pairs), list[list[Any]]()
    for before, version in zip(["", *versions], versions, strict=False):
        if version not in values:
            continue
        if spans and spans[-1][1] == before and spans[-1][2] == values[version]:
            spans[-1][1] = version
        else:
            spans.append([version, version, values[version]])
    return spans


def number(version: str) -> Version:
    """Return a version as numbers."""
    return tuple(int(part) for part in version.split("."))


def as_text(table: dict[str, Any], key: str) -> str:
    """Return JSON with a line for each name."""
    lines = [f"  {json.dumps(name)}: {json.dumps(spans)}" for name, spans in table[key].items()]
    head = f' "versions": {json.dumps(table["versions"])},\n "{key}": {{\n'
    return "{\n" + head + ",\n".join(lines) + "\n }\n}\n"


if __name__ == "__main__":
    main()
