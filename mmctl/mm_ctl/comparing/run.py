"""Runs the pod to its end, and reads what it leaves."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from mm_api.documents.evaluation import EvaluationReport
from mm_ctl.comparing.pod import CONTAINER
from mm_ctl.documents import UsageError
from mm_operator.cluster.client import Client
from mm_operator.cluster.pods import why_not_running
from mm_operator.cluster.resources import POD

_POLL_SECONDS = 0.5


class CompareFailedError(Exception):
    """The comparison has no result; the message says why."""


async def run_to_end(
    client: Client, pod: dict[str, Any], seconds: float, progress: Callable[[str], None]
) -> EvaluationReport:
    """Create the pod, wait for its end, delete it and return its report; CompareFailedError: none.

    `progress`: called with the phase, and why the pod waits, whenever they have changed.
    """
    metadata = pod["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    await client.create(POD, namespace, pod)
    try:
        return _result(await _ended(client, namespace, name, seconds, progress))
    finally:
        await asyncio.shield(client.delete(POD, namespace, name))


async def _ended(
    client: Client, namespace: str, name: str, seconds: float, progress: Callable[[str], None]
) -> Mapping[str, Any]:
    deadline, shown = time.monotonic() + seconds, ""
    while True:
        live = await client.get(POD, namespace, name)
        if live is None:
            raise CompareFailedError("the pod of the comparison was deleted")
        phase = str((live.get("status") or {}).get("phase", "Pending"))
        why = why_not_running(live) if phase == "Pending" else ""
        if (said := f"{phase}: {why}" if why else phase) != shown:
            progress(said)
            shown = said
        if phase in {"Failed", "Succeeded"}:
            return live
        if time.monotonic() > deadline:
            raise CompareFailedError(
                f"the comparison did not end within {seconds:.0f} s ({phase}): "
                f"{why_not_running(live) or 'it computes; raise --timeout'}"
            )
        await asyncio.sleep(_POLL_SECONDS)


def _result(live: Mapping[str, Any]) -> EvaluationReport:
    status = live["status"]
    states = status.get("containerStatuses") or ()
    own: Mapping[str, Any] = next((one for one in states if one["name"] == CONTAINER), {})
    ended = (own.get("state") or {}).get("terminated") or {}
    message = str(ended.get("message") or status.get("message") or "no reason given").strip()
    if ended.get("reason") == "OOMKilled":
        raise CompareFailedError("the comparison needed more memory than --memory: raise it")
    if ended.get("exitCode") != 0:
        raise CompareFailedError(f"the comparison failed: {message}")
    try:
        return EvaluationReport.from_json(message)
    except ValidationError as error:
        raise UsageError(
            f"the runtime image of the model printed no report that this mmctl reads: use the "
            f"mmctl of its release ({error.error_count()} fields differ)"
        ) from error
