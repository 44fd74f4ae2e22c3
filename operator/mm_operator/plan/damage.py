"""What follows when a pod finds its engine damaged: one reported rebuild; a second is manual.

The runtime ends with an exit code of its own when a file of the engine is missing or has other
bytes than its manifest says. The recorded result is taken back then, and a new Job replaces the
engine: it verifies what the store holds before it builds.
"""

import re
from datetime import datetime, timedelta

from pydantic import AwareDatetime, Field

from mm_api.base import Document
from mm_api.documents.build_result import BuildResult
from mm_operator import names
from mm_operator.model import (
    BuildDecision,
    ConfigState,
    EngineState,
    PodDamage,
    PodState,
    Ref,
    Snapshot,
    Step,
)
from mm_operator.plan.jobs import attempt_of
from mm_operator.plan.records import BUILT_AT_KEY, DAMAGE_KEY, ENGINE_KEY, RESULT_KEY, parse

_OTHER_MANIFEST = re.compile(r"manifest of the recorded build: sha256 \w+; expected (\w+)")
"""What `mm_runtime.base.manifest` says of an engine that was replaced in the store."""

REST = timedelta(days=1)
"""A store that damages an engine again so soon will do so a third time: a disk needs a person."""


class Damage(Document):
    """Why an engine was built again, kept beside its result."""

    format_version: int = Field(default=1, ge=1, le=1)
    message: str
    found_at: AwareDatetime
    former_attempt: int = Field(ge=0, description="Jobs up to this attempt built what was damaged.")


def found_damage(snapshot: Snapshot, engine_config: str) -> PodDamage | None:
    """Return what the last of the model's pods said that could not load this engine."""
    found = (
        pod.damage
        for pod in snapshot.observed.every_pod
        if pod.damage
        and _serves(snapshot, pod, engine_config)
        and not _is_stale(snapshot, pod.damage, engine_config)
    )
    return max(found, key=lambda damage: damage.found_at, default=None)


def pods_to_restart(snapshot: Snapshot, engine_config: str, build: BuildDecision) -> frozenset[Ref]:
    """Return the model's pods that refused the engine before it was built again.

    The kubelet starts such a pod again after a back-off of up to five minutes, which is reset by
    nothing; its Deployment makes another one within a second. Only of an engine that is recorded
    as built after the pod had looked: a pod that refuses the new one stays and is read.
    """
    if build.step is not Step.DONE or build.built_at is None:
        return frozenset()
    return frozenset(
        Ref("Pod", pod.name)
        for pod in snapshot.observed.every_pod
        if pod.damage
        and (
            pod.damage.found_at <= build.built_at or _is_stale(snapshot, pod.damage, engine_config)
        )
        and not (pod.ready or pod.terminating)
        and _serves(snapshot, pod, engine_config)
    )


def _serves(snapshot: Snapshot, pod: PodState, engine_config: str) -> bool:
    config = snapshot.observed.configs.get(names.serving_config(snapshot.name, pod.serving_hash))
    return config is not None and config.data.get(ENGINE_KEY) == engine_config


def _is_stale(snapshot: Snapshot, damage: PodDamage, engine_config: str) -> bool:
    """Return whether a pod refused an engine for another manifest than the one that is recorded.

    A kubelet shows a changed ConfigMap to a running pod up to a minute later; another pod reads the
    present one. Nothing is said of the engine's bytes.
    """
    engine = snapshot.observed.engines.get(engine_config, EngineState())
    result = parse(BuildResult, engine.config.data.get(RESULT_KEY)) if engine.config else None
    recorded = result.manifest_sha256 if result else None
    expected = _OTHER_MANIFEST.search(damage.message)
    return recorded is not None and expected is not None and expected[1] != recorded


def read_damage(config: ConfigState) -> Damage | None:
    return parse(Damage, config.data.get(DAMAGE_KEY))


def found_at(record: str) -> datetime | None:
    damage = parse(Damage, record)
    return damage.found_at if damage else None


def built_at(config: ConfigState) -> datetime | None:
    """Return when the recorded engine was built; None when an older operator recorded it.

    A text that is no time with a zone counts as none: any client may have written it.
    """
    try:
        time = datetime.fromisoformat(config.data.get(BUILT_AT_KEY, ""))
    except ValueError:
        return None
    return time if time.tzinfo else None


def is_news(found: PodDamage | None, config: ConfigState) -> bool:
    """Return whether a pod met the engine that is recorded, and not the one before its rebuild."""
    built = built_at(config)
    return found is not None and (built is None or found.found_at > built)


def damage_of(found: PodDamage, engine: EngineState) -> Damage:
    former = max((attempt_of(job) for job in engine.jobs), default=0)
    return Damage(message=found.message, found_at=found.found_at, former_attempt=former)


def written(damage: Damage | None) -> str:
    """Return a damage as it is recorded; empty for none."""
    return damage.to_json() if damage else ""
