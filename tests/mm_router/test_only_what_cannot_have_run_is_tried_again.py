"""A refusal is sent on to another replica only when it is that of a replica that drains."""

import pytest

from mm_edge.errors import DrainingError, error_response
from mm_edge.json_text import encode
from mm_router.retry import is_draining

DRAINING = error_response(
    DrainingError("Try again.", retry_after_seconds=1, reason="draining", code="draining")
)
BODY = encode(DRAINING.body)


def test_a_replica_that_drains_is_known_by_its_refusal() -> None:
    """The gateway's own refusal: status, header and code."""
    assert is_draining(DRAINING.status, DRAINING.headers, BODY)


@pytest.mark.parametrize(
    ("status", "headers", "content"),
    [
        pytest.param(500, {"retry-after": "1"}, BODY, id="another-status"),
        pytest.param(503, {}, BODY, id="no-time"),
        pytest.param(
            503, {"retry-after": "1"}, b'{"error":{"code":"engine_unavailable"}}', id="engine"
        ),
        pytest.param(503, {"retry-after": "1"}, b"upstream connect error", id="a-proxy"),
        pytest.param(503, {"retry-after": "1"}, b'{"error":"draining"}', id="another-shape"),
        pytest.param(503, {"retry-after": "1"}, b"[]", id="list"),
    ],
)
def test_other_answers_are_the_answer(status: int, headers: dict[str, str], content: bytes) -> None:
    """The request may have run."""
    assert not is_draining(status, headers, content)
