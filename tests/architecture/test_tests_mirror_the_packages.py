"""The tests of a module are found by its path: folders of tests/ are named as the packages are."""

from pathlib import Path

import pytest

from support.needs import PACKAGES, ROOT, imports

TESTS = ROOT / "tests"
ACROSS = {
    "adversarial": "attacks on an entire gateway, an operator and an API server",
    "architecture": "the repository itself: layers, layout, generated files, its own checks",
    "chart": "the Helm chart, against the operator and a real API server",
    "e2e": "the entire development cluster",
    "examples": "the checkpoints of examples/",
    "gateway_api": "a controller of Gateway API and its Envoy before the router of the chart",
    "guides": "which tests show what docs/design/guides.md says",
    "gpu": "encoders, language models and servers on a GPU",
    "inference": "Envoy and the endpoint picker of the Gateway API before gateways",
    "keda": "a real KEDA follows the operator",
    "known_problems": "which tests show what docs/design/known-problems.md says",
    "families": "one command for what every family must show",
    "media": "files of images, videos and recordings, and how they arrive",
    "native": "repository, server and gateway of TensorRT-LLM engines together",
    "openai": "the official client's requests to a real gateway and its Triton",
    "requests": "requests to the models of a real Triton: repository, serving and launch together",
    "vllm": "the real vLLM behind a real gateway: staging, serving, clients",
    "twin": "programs of ours in environments that hold what NVIDIA's images hold",
    "scenarios": "plan, children and status decide together, reconcile after reconcile",
}
"""Folder -> what its tests go through instead of one package."""
ELSEWHERE = {
    "mm_api/documents": "each package that writes or reads a document",
    "mm_devcluster/config": "mm_devcluster: the blueprint that holds the files",
    "mm_devcluster/supervisor": "mm_devcluster: control planes that start and end",
    "mm_operator/model": "mm_operator/plan: types of what is observed, without behaviour",
}
"""Package -> whose tests run it instead of tests of its own."""

ENTRANCES = frozenset(
    {"mm_ctl/cli", "mm_devcluster/cluster", "mm_lab/cli", "mm_runtime/cli", "support/real_gateway"}
)
"""What a user or an image starts: a test that goes through one may look at any package behind.
`support.real_gateway` starts both programs of a pod as `python -m mm_runtime`."""


def packages() -> set[str]:
    """Return the packages of shipped code, as their folders are named below `sys.path`."""
    return {
        file.parent.relative_to((ROOT / top).parent).as_posix()
        for top in PACKAGES
        for file in (ROOT / top).rglob("__init__.py")
    }


def files_of_tests() -> list[Path]:
    return sorted(file.relative_to(TESTS) for file in TESTS.rglob("test_*.py"))


def is_within(path: str, package: str) -> bool:
    return path == package or path.startswith(f"{package}/")


def test_folders_are_packages() -> None:
    known = packages()
    found = {file.parent.as_posix() for file in files_of_tests() if file.parts[0] not in ACROSS}

    assert sorted(found - known) == []


def test_packages_have_tests() -> None:
    folders = {file.parent.as_posix() for file in files_of_tests()}
    parts = {"/".join(one.split("/")[:2]) for one in packages() if "/" in one}

    alone = {one for one in parts if not any(is_within(folder, one) for folder in folders)}

    assert alone == set(ELSEWHERE)


@pytest.mark.parametrize("folder", ACROSS)
def test_reasons_are_needed(folder: str) -> None:
    assert any((TESTS / folder).rglob("test_*.py"))
    assert folder not in packages()


def test_packages_come_from_their_sources() -> None:
    """Folders of tests/ hide no package: they stand on `sys.path` without being packages."""
    folders = {parent for file in files_of_tests() for parent in file.parents}

    assert [str(one) for one in sorted(folders) if (TESTS / one / "__init__.py").exists()] == []


def names_in(file: Path) -> list[set[str]]:
    """Return what a file of tests imports itself, and with that what its helpers import."""
    own = set(imports(TESTS / file))
    helpers = (TESTS / f"{one.replace('.', '/')}.py" for one in own if one.startswith("support."))
    found = (own, own.union(*(imports(one) for one in helpers if one.is_file())))
    return [{one.replace(".", "/") for one in names} for names in found]


def test_tests_look_at_their_package() -> None:
    """A file that imports modules of another package, and none of its folder's, stands there."""
    astray = [
        str(file)
        for file in files_of_tests()
        if file.parts[0] not in ACROSS
        for own, through in [names_in(file)]
        if any(is_within(one, file.parts[0]) for one in own) and ENTRANCES.isdisjoint(own)
        if not any(is_within(one, file.parent.as_posix()) for one in through)
    ]

    assert astray == []
