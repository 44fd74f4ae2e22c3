"""Which existing objects stay although no builder makes them now, and which engines are let go."""

from mm_operator import names
from mm_operator.model import (
    BuildDecision,
    ConfigState,
    GarbageCollection,
    InspectDecision,
    Ref,
    RolloutDecision,
    Snapshot,
    Step,
)
from mm_operator.plan.records import CLAIMS_KEY, ENGINE_KEY

_OF_ENCODERS = ("NetworkPolicy", "Service", "PodDisruptionBudget")


def kept(
    snapshot: Snapshot,
    inspect: InspectDecision,
    build: BuildDecision,
    rollout: RolloutDecision,
    garbage_collection: GarbageCollection,
) -> frozenset[Ref]:
    """Return the objects that are neither applied again nor pruned.

    A Job's template cannot be changed, so a Job that exists is never applied again. It stays until
    what it found is recorded.
    """
    keep = {
        Ref("Job", job)
        for job, step in ((inspect.job, inspect.step), (build.job, build.step))
        if job and step is not Step.START
    }
    if garbage_collection.job and not garbage_collection.start:
        keep.add(Ref("Job", garbage_collection.job))  # it says when the store was swept last
    for config in serving_configs(snapshot):
        keep.add(Ref("ConfigMap", config.name))
        claims = config.data.get(CLAIMS_KEY, "").split(",")
        keep.update(Ref("ResourceClaimTemplate", name) for name in claims if name)
    if inspect.facts is None:
        # Recorded facts are replaced by new ones, never missed: they say which round this is.
        keep.add(Ref("ConfigMap", names.facts_config(snapshot.name)))
    if rollout.held and snapshot.observed.encoders is None:
        # A held revision's encoders are made from their live Deployment, which was deleted:
        # another one comes with the next revision, and finds its address there.
        keep |= {Ref(kind, names.encoders(snapshot.name)) for kind in _OF_ENCODERS}
    return frozenset(keep)


def serving_configs(snapshot: Snapshot) -> tuple[ConfigState, ...]:
    """Return the recorded revisions that a Deployment or a pod still uses."""
    observed = snapshot.observed
    used = {pod.serving_hash for pod in observed.every_pod}
    deployments = (observed.deployment, observed.encoders, observed.canary)
    used |= {one.serving_hash for one in deployments if one}
    found = (
        observed.configs.get(names.serving_config(snapshot.name, digest)) for digest in sorted(used)
    )
    return tuple(config for config in found if config)


def released(snapshot: Snapshot, wanted: str, rollout: RolloutDecision) -> tuple[str, ...]:
    """Return the engines this model owns and no longer needs.

    `wanted`: the ConfigMap of the current plan's engine; empty while there is no plan, and then
    nothing is let go, because the next plan may want it. `rollout`: while it is held by a lost
    record, the serving engine is unknown: all stay.
    """
    if not wanted or (rollout.held and not _recorded_engine(snapshot, rollout)):
        return ()
    needed = {config.data.get(ENGINE_KEY, "") for config in serving_configs(snapshot)} | {wanted}
    return tuple(sorted(snapshot.observed.owned_engines - needed))


def _recorded_engine(snapshot: Snapshot, rollout: RolloutDecision) -> str:
    """Return the ConfigMap of the engine that a revision serves; empty when that is lost."""
    config = snapshot.observed.configs.get(
        names.serving_config(snapshot.name, rollout.serving_hash)
    )
    return config.data.get(ENGINE_KEY, "") if config else ""
