"""PURE: whether a request that one replica did not answer may go to another one.

Only where it cannot have run: no connection was made, or a replica that drains refused it. A
connection that ended later may have carried the request; nothing is sent twice after it.
"""

from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import orjson

MOST_ATTEMPTS = 3
"""Replicas of one request; each that cannot be reached costs a time-out of its own at most."""


class RetryReason(StrEnum):
    """Why a request goes to another replica; the label of a metric."""

    UNREACHABLE = "unreachable"
    DRAINING = "draining"


def is_draining(status: int, headers: Mapping[str, str], content: bytes) -> bool:
    """Return whether an answer is the refusal of a replica that drains.

    A 503 alone says too little: the engine behind may have failed while the request ran.
    """
    if status != HTTPStatus.SERVICE_UNAVAILABLE or "retry-after" not in headers:
        return False
    try:
        body: Any = orjson.loads(content)
        return bool(body["error"]["code"] == "draining")
    except (ValueError, TypeError, KeyError):
        return False
