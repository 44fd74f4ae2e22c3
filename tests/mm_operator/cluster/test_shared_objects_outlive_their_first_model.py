"""What models share stays while one of them uses it, also when its first model is deleted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.absent_kubelet import get, inspected
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator

pytestmark = pytest.mark.cluster

CLAIM = ("pvc", "multimodal-store")


@pytest.fixture
def shared(api: Api, tmp_path: Path) -> Iterator[Api]:
    with running_operator(api.cluster, tmp_path, api.namespace):
        api.apply(document(name="first"))
        planned(api, "first")
        yield api


def planned(api: Api, name: str) -> None:
    inspected(api, name)
    eventually(lambda: get(api, "mmm", name).get("status", {}).get("plan"))


def owners_of(api: Api) -> list[str]:
    return sorted(one["name"] for one in get(api, *CLAIM)["metadata"]["ownerReferences"])


def test_a_new_model_owns_the_store_at_once(shared: Api) -> None:
    """When it has a plan its name is written, and not with those of others later."""
    shared.apply(document(name="second"))
    planned(shared, "second")

    assert owners_of(shared) == ["first", "second"]


@pytest.mark.slow
def test_the_store_outlives_the_model_that_made_it(shared: Api) -> None:
    """The first one is deleted as soon as the second has a plan: its engines are the second's."""
    shared.kubectl("delete", "mmm", "first")
    # The garbage collector looks for new kinds, this one included, every 30 s.
    eventually(lambda: not shared.read("pvc")["items"], seconds=90)
    for name in ("third", "fourth"):
        shared.apply(document(name=name))
        planned(shared, name)
    before = get(shared, *CLAIM)["metadata"]["uid"]

    shared.kubectl("delete", "mmm", "third")

    eventually(lambda: owners_of(shared) == ["fourth"], seconds=90)
    claim = get(shared, *CLAIM)["metadata"]
    assert (before, None) == (claim["uid"], claim.get("deletionTimestamp"))
