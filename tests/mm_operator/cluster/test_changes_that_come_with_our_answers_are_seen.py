"""A user changes a model while its status is written: the answer to our write shows it first."""

from typing import Any

import pytest

from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache
from support.model_documents import document

KEY = Key("demo", "llava")


def _seen(version: int, *, generation: int, replicas: int = 1) -> dict[str, Any]:
    metadata = {
        "namespace": KEY.namespace,
        "name": KEY.name,
        "uid": "u",
        "generation": generation,
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {**document({"replicas": replicas}), "metadata": metadata}


@pytest.fixture
def reported() -> list[Key]:
    return []


@pytest.fixture
def models(reported: list[Key]) -> ModelCache:
    models = ModelCache(reported.append)
    models.put(_seen(5, generation=1))
    reported.clear()
    return models


def test_a_status_of_ours_is_no_news(models: ModelCache, reported: list[Key]) -> None:
    models.put(_seen(6, generation=1), own=True)
    models.put(_seen(6, generation=1))
    assert reported == []


def test_a_spec_that_comes_with_the_answer_is_news(models: ModelCache, reported: list[Key]) -> None:
    """Its own event is older than the answer and reports nothing any more."""
    models.put(_seen(7, generation=2, replicas=2), own=True)
    models.put(_seen(6, generation=2, replicas=2))
    assert reported == [KEY]


def test_what_users_change_is_apart_from_what_others_write() -> None:
    """A model that is new or has a new generation goes ahead in the queue; a label does not."""
    other: list[Key] = []
    of_users: list[Key] = []
    models = ModelCache(other.append, of_users.append)

    models.put(_seen(5, generation=1))
    models.put(_seen(6, generation=1))
    models.put(_seen(7, generation=2))

    assert (len(of_users), len(other)) == (2, 1)
