"""Whether the installed resource definition is this operator's, and its upgrade.

Helm installs what lies in a chart's `crds/` once and never again, so an upgraded operator would
work with the fields of the first release. The definition says which release it comes from, and has
a digest of itself. One of a newer release is left alone: another installation needs it.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Literal

from mm_api import labels
from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import DEFINITION
from mm_operator.errors import ClusterError

DefinitionUse = Literal["Upgrade", "Report", "Ignore"]

_LOG = logging.getLogger(__name__)

_RETRY_SECONDS = 2.0
_CONFLICT, _FORBIDDEN = 409, 403


class Installed(StrEnum):
    """What is installed, compared with what this operator was made with."""

    CURRENT = "current"
    OLDER = "older"
    """From an older release, of none that is known, or another one of the same release."""
    NEWER = "newer"
    ABSENT = "absent"
    UNKNOWN = "unknown"
    """It may not be read."""


def compared(installed: Mapping[str, Any] | None, own: Mapping[str, Any]) -> Installed:
    """Return how an installed definition relates to the operator's own."""
    if installed is None:
        return Installed.ABSENT
    marks = installed["metadata"].get("annotations") or {}
    wanted = own["metadata"]["annotations"]
    if marks.get(labels.DEFINITION_DIGEST) == wanted[labels.DEFINITION_DIGEST]:
        return Installed.CURRENT
    newer = _release(marks) > _release(wanted)
    return Installed.NEWER if newer else Installed.OLDER


def replaced(installed: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the installed object with the operator's own spec.

    Replaced and not applied: a rule that is no longer there must go, no matter who wrote it.
    """
    metadata = {**installed["metadata"]}
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        **own["metadata"]["annotations"],
    }
    return {**installed, "metadata": metadata, "spec": own["spec"]}


def _release(marks: Mapping[str, Any]) -> tuple[int, ...]:
    parts = str(marks.get(labels.DEFINITION_RELEASE, "")).split(".")
    known = all(re.fullmatch(r"[0-9]{1,5}", part) for part in parts)
    return tuple(map(int, parts)) if known else ()


class DefinitionKeeper:
    """Upgrades the definition at the start, and looks from time to time whether it is current.

    `client` may write whether this replica leads or not: both would write the same.
    """

    def __init__(
        self,
        client: Client,
        *,
        use: DefinitionUse,
        look_seconds: float,
        on_outdated: Callable[[bool], None],
    ) -> None:
        self._client = client
        self._use = use
        self._look_seconds = look_seconds
        self._on_outdated = on_outdated
        self._settled = use == "Ignore"
        self._said: Installed | None = None

    def problem(self) -> str:
        """Return why new fields may not be accepted yet, as a sentence; empty once that is over."""
        return "" if self._settled else f"{DEFINITION.plural}: it is not known what is installed"

    async def run(self) -> None:
        """Settle, then look until cancelled."""
        if self._use == "Ignore":
            await asyncio.Event().wait()
        own = await asyncio.to_thread(_own)
        while not self._settled:
            self._settled = await self._settle(own)
            if not self._settled:
                await asyncio.sleep(_RETRY_SECONDS)
        while True:
            await asyncio.sleep(self._look_seconds)
            try:
                self._report(compared(await self._read(own), own), own)
            except ClusterError as error:
                _LOG.info("the definition cannot be looked at: %s", error)

    async def _settle(self, own: Mapping[str, Any]) -> bool:
        """Look and upgrade; return whether there is nothing more to do for now."""
        found = Installed.UNKNOWN
        try:
            installed = await self._read(own)
            found = compared(installed, own)
            if found is Installed.OLDER and self._use == "Upgrade" and installed is not None:
                name = own["metadata"]["name"]
                await self._client.update(DEFINITION, None, name, replaced(installed, own))
                _LOG.info("the resource definition was upgraded to %s", _named(own))
                found = Installed.CURRENT
        except ClusterError as error:
            if error.status == _CONFLICT:  # the other replica was faster
                return False
            if error.status != _FORBIDDEN:
                _LOG.warning("the resource definition cannot be upgraded yet: %s", error)
                return False
            # One that was read and may not be replaced stays what it was found to be.
            done = "read" if found is Installed.UNKNOWN else "upgraded"
            _LOG.warning("the resource definition may not be %s: %s", done, error)
        self._report(found, own)
        return found is not Installed.ABSENT

    async def _read(self, own: Mapping[str, Any]) -> dict[str, Any] | None:
        return await self._client.get(DEFINITION, None, own["metadata"]["name"])

    def _report(self, found: Installed, own: Mapping[str, Any]) -> None:
        self._on_outdated(found is Installed.OLDER)
        if found is self._said:
            return
        self._said = found
        if found is Installed.OLDER:
            _LOG.warning(
                "the installed resource definition is older than this operator (%s): new fields "
                "are refused or dropped. helm show crds CHART | kubectl apply --server-side "
                "--force-conflicts -f -",
                _named(own),
            )
        elif found is Installed.NEWER:
            _LOG.info("the installed resource definition is newer than this operator")


def _named(own: Mapping[str, Any]) -> str:
    return f"release {own['metadata']['annotations'][labels.DEFINITION_RELEASE]}"


def _own() -> dict[str, Any]:
    from mm_api.v1alpha1.definition import definition  # noqa: PLC0415  (see above)

    return definition()
