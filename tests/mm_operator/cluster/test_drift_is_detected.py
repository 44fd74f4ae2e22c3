"""What counts as drift from an intent, and what is only the API server's way of writing it."""

from typing import Any

import pytest

from mm_operator.cluster.ownership import is_in_sync

CASES = [
    pytest.param({"a": 1, "b": 2}, {"a": 1}, True, id="additions-of-others-stay"),
    pytest.param({"a": 1}, {"a": 2}, False, id="changed-value"),
    pytest.param({}, {"a": 1}, False, id="missing-field"),
    pytest.param({"a": None}, {"a": {"b": 1}}, False, id="emptied-part"),
    pytest.param({"a": {}}, {"a": {}}, True, id="empty-mapping"),
    pytest.param(
        {"limits": {"memory": "1Gi"}}, {"limits": {"memory": "1024Mi"}}, True, id="canonical-memory"
    ),
    pytest.param({"limits": {"cpu": "1"}}, {"limits": {"cpu": "1000m"}}, True, id="canonical-cpu"),
    pytest.param(
        {"limits": {"memory": "2Gi"}}, {"limits": {"memory": "1Gi"}}, False, id="other-memory"
    ),
    pytest.param(
        {"emptyDir": {"sizeLimit": "64Mi"}},
        {"emptyDir": {"sizeLimit": "67108864"}},
        True,
        id="canonical-size-limit",
    ),
    pytest.param({"value": "1"}, {"value": "1000m"}, False, id="a-text-is-no-quantity"),
    pytest.param({"args": ["a", "b"]}, {"args": ["a", "b"]}, True, id="same-arguments"),
    pytest.param({"args": ["a", "b", "c"]}, {"args": ["a", "b"]}, False, id="longer-arguments"),
    pytest.param({"args": ["b", "a"]}, {"args": ["a", "b"]}, False, id="order-of-arguments"),
    pytest.param(
        {"env": [{"name": "X", "value": "x"}, {"name": "A", "value": "a"}]},
        {"env": [{"name": "A", "value": "a"}]},
        True,
        id="items-found-by-name",
    ),
    pytest.param(
        {"env": [{"name": "A", "value": "b"}]},
        {"env": [{"name": "A", "value": "a"}]},
        False,
        id="changed-item",
    ),
    pytest.param(
        {"rules": [{"action": "Ignore", "on": [{"type": "X", "status": "True"}]}]},
        {"rules": [{"action": "Ignore", "on": [{"type": "X"}]}]},
        True,
        id="defaults-inside-atomic-lists",
    ),
    pytest.param({"env": "text"}, {"env": [{"name": "A"}]}, False, id="list-became-text"),
]


@pytest.mark.parametrize(("live", "intent", "expected"), CASES)
def test_drift(live: dict[str, Any], intent: dict[str, Any], expected: bool) -> None:  # noqa: FBT001  # a parameter
    assert is_in_sync(live, intent) is expected
