"""What differs by image layout is an attribute of its record: no module compares records.

Modules outside `mm_api.families` that import a record, or compare one or its keys, are places that
have to be found when a layout is added.
"""

import ast
from collections.abc import Iterator

from tests.architecture.test_family_names_occur_in_families_only import ROOT, modules

from mm_api.families import FAMILIES
from mm_api.families.image_layouts import LAYOUTS
from mm_runtime.serving.encode.vision.load import ENCODERS
from mm_runtime.serving.preprocess.processors import LOADERS
from support.cases import cases

PACKAGE = "mm_api.families.image_layouts"
KEYS = frozenset({"layout", "processor", "encoder"})


def compared(source: str) -> Iterator[str]:
    if "layout" not in source:
        return  # to parse all modules takes two seconds
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith(PACKAGE):
                yield from (one.name for one in names if one.name.isupper() and len(one.name) > 1)
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                if not any(isinstance(one, ast.Constant) and one.value is None for one in sides):
                    yield from (ast.unparse(one) for one in sides if _is_key(one))
            case ast.Match(subject=subject) if _is_key(subject):
                yield ast.unparse(subject)


def _is_key(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(attr="layout"):
            return True
        case ast.Attribute(value=ast.Attribute(attr="layout") | ast.Name("layout"), attr=name):
            return name in KEYS
    return False


def test_no_module_compares_layouts() -> None:
    found = {
        name: sorted(compared((ROOT / name).read_text(encoding="utf-8"))) for name in modules()
    }

    allowed = {"ACTS", "REFUSED"}
    assert {name: some for name, some in found.items() if set(some) - allowed} == {}


@cases(
    "source found",
    {
        "record": ("family.layout is other", ["family.layout"]),
        "key": ("layout.processor == 'hd'", ["layout.processor"]),
        "match": ("match one.layout.encoder:\n    case 'hd': pass", ["one.layout.encoder"]),
        "import": (f"from {PACKAGE} import GRID", ["GRID"]),
        "absent": ("family.layout.encoder is not None", []),
        "attributes": ("family.layout.rotated and family.layout.is_square", []),
        "formula": (f"from {PACKAGE}.ended import tokens_of_grid", []),
    },
)
def test_comparisons_are_found(source: str, found: list[str]) -> None:
    assert list(compared(source)) == found


def test_registries_know_every_key() -> None:
    """A record names no processor or encoder that does not exist."""
    records = {*LAYOUTS, *(family.layout for family in FAMILIES.values())}
    assert {one.processor for one in records} == {*LOADERS}
    assert {one.encoder for one in records if one.encoder} == {*ENCODERS}
