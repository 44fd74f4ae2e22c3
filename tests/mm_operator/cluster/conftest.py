"""A control plane with the resource definition, and a namespace for each test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest

from mm_devcluster.cluster import ClusterInfo
from support.clusters import namespace
from support.definition import install_definition
from support.model_namespace import Api
from support.operator_process import running_operator


@pytest.fixture(scope="session")
def defined(control_plane: ClusterInfo) -> ClusterInfo:
    install_definition(control_plane)
    return control_plane


@pytest.fixture
def api(defined: ClusterInfo) -> Iterator[Api]:
    with namespace(defined, f"models-{uuid4().hex[:8]}") as name:
        yield Api(defined, name)


@pytest.fixture(scope="module")
def make_watched(
    defined: ClusterInfo, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Api]]:
    """Return what makes namespaces that an operator serves, by twos; the last operator runs."""
    unused: list[Api] = []
    with ExitStack() as stack:

        def make() -> Api:
            if not unused:
                stack.close()
                names = [
                    stack.enter_context(namespace(defined, f"models-{uuid4().hex[:8]}"))
                    for _ in range(2)
                ]
                folder = tmp_path_factory.mktemp("watched")
                stack.enter_context(running_operator(defined, folder, *names))
                unused.extend(Api(defined, name) for name in names)
            return unused.pop()

        yield make


@pytest.fixture
def watched(make_watched: Callable[[], Api]) -> Api:
    """A namespace of its own, of an operator that has another test's, too.

    For tests that neither end their operator nor give it arguments: each start takes seconds.
    """
    return make_watched()
