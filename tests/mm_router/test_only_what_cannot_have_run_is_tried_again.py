"""A refusal is sent on to another replica only when it is that of a replica that drains."""

from mm_edge.errors import DrainingError, error_response
from mm_edge.json_text import encode
from mm_router.attempts import is_draining
from support.cases import cases

DRAINING = error_response(
    DrainingError("Try again.", retry_after_seconds=1, reason="draining", code="draining")
)
BODY = encode(DRAINING.body)


def test_a_replica_that_drains_is_known_by_its_refusal() -> None:
    assert is_draining(DRAINING.status, DRAINING.headers, BODY)


@cases(
    "status headers content",
    {
        "another-status": (500, {"retry-after": "1"}, BODY),
        "no-time": (503, {}, BODY),
        "engine": (503, {"retry-after": "1"}, b'{"error":{"code":"engine_unavailable"}}'),
        "a-proxy": (503, {"retry-after": "1"}, b"upstream connect error"),
        "another-shape": (503, {"retry-after": "1"}, b'{"error":"draining"}'),
        "list": (503, {"retry-after": "1"}, b"[]"),
    },
)
def test_other_answers_are_the_answer(status: int, headers: dict[str, str], content: bytes) -> None:
    assert not is_draining(status, headers, content)
