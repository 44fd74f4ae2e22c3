"""Objects in memory, for driving the pure half through entire lives of a model.

No API server is imitated: objects are kept as the builders return them, and the test itself says
what Jobs and pods do. Whether a real API server takes the objects is shown by
`tests/mm_operator/children`.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mm_api import labels
from mm_api.documents.build_result import BuildFailure, BuildProgress, BuildResult
from mm_api.documents.model_facts import InspectError, InspectResult, ModelFacts
from mm_api.v1alpha1.validation import validate
from mm_operator import names
from mm_operator.children.all import build, unwanted
from mm_operator.children.metadata import FORMER_OWNERS
from mm_operator.model import (
    ClaimState,
    ConfigState,
    DeploymentState,
    EngineState,
    JobPhase,
    JobState,
    Observed,
    Outcome,
    Owner,
    Plan,
    PodDamage,
    PodEnd,
    PodState,
    Ref,
    Snapshot,
)
from mm_operator.plan import decide
from mm_operator.status.derive import derive
from mm_operator.status.events import transitions
from support.model_documents import document
from support.models import EPOCH, snapshot_of

STEPS = 12
"""More reconciles than any transition needs: reaching it means that two decisions alternate."""


class ImaginedCluster:
    """One namespace with models, their objects and a clock that the test moves."""

    def __init__(self) -> None:
        self.now: datetime = EPOCH
        self.models: dict[str, Snapshot] = {}
        self.objects: dict[Ref, dict[str, Any]] = {}
        self.jobs: dict[str, JobState] = {}
        self.rolled: dict[str, DeploymentState] = {}
        self.pods: dict[str, tuple[PodState, ...]] = {}
        self.plans: dict[str, Plan] = {}
        self.log: list[str] = []
        """What identifies the volume of the models' stores."""
        self._uids = 0

    # --- what people do -------------------------------------------------------------------------

    def apply(self, name: str, changes: Mapping[str, Any] | None = None) -> None:
        """Apply a model, or change the spec of the one that exists."""
        problems = validate(document(changes, name=name))
        assert problems == [], problems
        fresh = snapshot_of(changes, name=name)
        known = self.models.get(name)
        if known:
            fresh = replace(known, spec=fresh.spec, generation=known.generation + 1)
        self.models[name] = fresh
        self.say(f"apply {name} {json.dumps(changes) if changes else '(defaults)'}")
        self.settle()

    def delete(self, name: str) -> None:
        uid = self.models.pop(name).uid
        self.say(f"delete {name}")
        self._collect(uid)
        self.settle()

    def remove(self, ref: Ref) -> None:
        self.say(f"a user deletes {ref.kind} {ref.name}")
        self._collect(self.objects[ref]["metadata"]["uid"])
        del self.objects[ref]
        self._forget(ref)
        self.settle()

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.say(f"{seconds:g} s pass")
        self._end_of_rest()
        self.settle()

    # --- what Jobs and pods do ------------------------------------------------------------------

    def job(self, part: str) -> str:
        (name,) = [name for name in self.open_jobs() if part in name]
        return name

    def open_jobs(self) -> list[str]:
        return sorted(n for n, job in self.jobs.items() if job.phase is not JobPhase.SUCCEEDED)

    def start(self, part: str) -> None:
        self._job(self.job(part), "its pod runs", phase=JobPhase.RUNNING)

    def block(self, part: str, waiting: str) -> None:
        self._job(self.job(part), waiting, phase=JobPhase.PENDING, waiting=waiting)

    def inspected(self, facts: ModelFacts) -> None:
        text = InspectResult(facts=facts).to_json()
        self.end("inspect", PodEnd("pod", succeeded=True, exit_code=0, message=text))

    def refused(self, error: InspectError) -> None:
        text = InspectResult(error=error).to_json()
        self.end("inspect", PodEnd("pod", succeeded=False, exit_code=3, message=text))

    def follow(self, part: str, progress: BuildProgress, *, started: datetime) -> None:
        self._job(
            self.job(part),
            f"its pod is at {progress.step or 'the lock'}",
            phase=JobPhase.RUNNING,
            progress=progress.line(),
            started_at=started,
        )

    def built(
        self, part: str = "engine-", *, reused: bool = False, manifest_sha256: str = "ab" * 32
    ) -> None:
        result = BuildResult(
            fingerprint=self.fingerprint(part),
            manifest_sha256=manifest_sha256,
            step_seconds={} if reused else {"fetch": 1},
            reused=reused,
        )
        end = PodEnd("pod", succeeded=True, exit_code=0, message=result.to_json())
        self.end(part, end)

    def broke(self, failure: BuildFailure, part: str = "engine-") -> None:
        result = BuildResult(fingerprint=self.fingerprint(part), failure=failure)
        text = result.to_json()
        self.end(part, PodEnd("pod", succeeded=False, exit_code=3, message=text))

    def end(self, part: str, end: PodEnd) -> None:
        name = self.job(part)
        job = self.jobs[name]
        phase = JobPhase.SUCCEEDED if end.succeeded else JobPhase.FAILED
        how = "succeeds" if end.succeeded else f"fails with exit code {end.exit_code} {end.reason}"
        self._job(
            name,
            how.strip(),
            phase=phase,
            finished_at=self.now,
            failed_pods=job.failed_pods + (not end.succeeded),
            ends=(*job.ends, replace(end, finished_at=self.now)),
        )

    def fingerprint(self, part: str) -> str:
        job = self.objects[Ref("Job", self.job(part))]
        fingerprint: str = job["metadata"]["annotations"][labels.INPUTS_HASH]
        return fingerprint

    def pods_ready(self, name: str) -> None:
        """Replace every pod by ready ones of the Deployment's template."""
        wanted = self.objects[Ref("Deployment", name)]["spec"]
        digest = wanted["template"]["metadata"]["annotations"][labels.SERVING_HASH]
        count = wanted["replicas"]
        pod = PodState(digest, "Running", ready=True, container="gateway")
        self.pods[name] = (pod,) * count
        state = self.rolled[name]
        self.rolled[name] = replace(
            state,
            observed_generation=state.generation,
            replicas=count,
            updated=count,
            ready=count,
            available=count,
            was_complete=True,
        )
        self.say(f"{count} pods of {name} are ready")
        self.settle()

    def trouble(self, name: str, pod: PodState) -> None:
        wanted = self.objects[Ref("Deployment", name)]["spec"]
        digest = wanted["template"]["metadata"]["annotations"][labels.SERVING_HASH]
        self.pods[name] = (*self.pods.get(name, ()), replace(pod, serving_hash=digest))
        self.say(f"a pod of {name} is in trouble")
        self.settle()

    def cannot_load(self, name: str, message: str) -> None:
        """Let the pods of a model end because a file of their engine is damaged."""
        damage = PodDamage(message, self.now)
        self.pods[name] = ()
        pod = PodState("", "Running", ready=False, damage=damage, name=f"{name}-{self._uid()}")
        self.trouble(name, pod)

    # --- what the operator does -----------------------------------------------------------------

    def settle(self) -> None:
        for _ in range(STEPS):
            changes = [self.reconcile(name) for name in sorted(self.models)]
            if not any(changes):
                return
        raise AssertionError("the decisions never come to rest:\n" + "\n".join(self.log[-40:]))

    def reconcile(self, name: str) -> bool:
        snapshot = self.snapshot(name)
        plan = decide(snapshot)
        self.plans[name] = plan
        objects = build(snapshot, plan)
        changed = tuple(ref for ref in map(self._apply, objects) if ref)
        deleted = unwanted(snapshot, plan, objects)
        for ref in deleted:
            if ref in self.objects:  # else the garbage collector was faster
                self._collect(self.objects.pop(ref)["metadata"]["uid"])
                self._forget(ref)
            if ref.kind == "Pod":
                self.pods[name] = tuple(pod for pod in self.pods[name] if pod.name != ref.name)
        if changed:
            self.say(f"  {name}: writes {', '.join(f'{r.kind} {r.name}' for r in changed)}")
        if deleted:
            self.say(f"  {name}: deletes {', '.join(f'{r.kind} {r.name}' for r in deleted)}")
        status = derive(snapshot, plan, Outcome(changed=changed, deleted=deleted))
        for event in transitions(snapshot.status, status):
            self.say(f"  {name}: {event.type} {event.reason}: {event.message}")
        self.models[name] = replace(self.models[name], status=status)
        return bool(changed or deleted or status != snapshot.status)

    def snapshot(self, name: str) -> Snapshot:
        model = self.models[name]
        sharers = {
            other.uid
            for other in self.models.values()
            if other.spec and other.spec.build.store.persistent_volume_claim is None
        }
        store = self.objects.get(Ref("PersistentVolumeClaim", names.STORE_CLAIM))
        owners = store["metadata"]["ownerReferences"] if store else ()
        return replace(
            model,
            now=self.now,
            observed=self._observed(model),
            store_leavers=frozenset(one["uid"] for one in owners) - sharers,
        )

    def conditions(self, name: str) -> dict[str, str]:
        return {
            condition["type"]: f"{condition['status']} {condition['reason']}"
            for condition in self.models[name].status["conditions"]
        }

    def message(self, name: str, kind: str) -> str:
        found = [one for one in self.models[name].status["conditions"] if one["type"] == kind]
        text: str = found[0]["message"]
        return text

    def names(self, kind: str) -> list[str]:
        return sorted(ref.name for ref in self.objects if ref.kind == kind)

    def say(self, line: str) -> None:
        self.log.append(line)

    def _end_of_rest(self) -> None:
        """Delete the Jobs whose time to live is over, as Kubernetes' controller does."""
        for name, job in list(self.jobs.items()):
            lasts = self.objects[Ref("Job", name)]["spec"].get("ttlSecondsAfterFinished")
            ended = job.finished_at if job.phase in {JobPhase.SUCCEEDED, JobPhase.FAILED} else None
            if lasts is not None and ended and self.now - ended >= timedelta(seconds=lasts):
                self.say(f"  time to live: deletes Job {name}")
                del self.objects[Ref("Job", name)]
                self._forget(Ref("Job", name))

    # --- how objects are kept -------------------------------------------------------------------

    def _job(self, name: str, how: str, **changes: Any) -> None:
        self.jobs[name] = replace(self.jobs[name], **changes)
        self.say(f"Job {name}: {how}")
        self.settle()

    def _apply(self, manifest: dict[str, Any]) -> Ref | None:
        ref = Ref(manifest["kind"], manifest["metadata"]["name"])
        known = self.objects.get(ref)
        uid = known["metadata"]["uid"] if known else self._uid()
        fresh = {**manifest, "metadata": {**manifest["metadata"], "uid": uid}}
        former = fresh["metadata"].pop(FORMER_OWNERS, ())
        if known and labels.MODEL not in fresh["metadata"]["labels"]:
            both = (*known["metadata"]["ownerReferences"], *fresh["metadata"]["ownerReferences"])
            stay = {one["name"]: one for one in both if one["uid"] not in former}
            fresh["metadata"]["ownerReferences"] = [stay[name] for name in sorted(stay)]
        if fresh == known:
            return None
        assert not (known and ref.kind == "Job"), f"{ref} exists: a Job cannot be changed"
        self.objects[ref] = fresh
        if ref.kind == "Job":
            self.jobs[ref.name] = JobState(
                name=ref.name,
                uid=uid,
                phase=JobPhase.PENDING,
                created=self.now,
                annotations=manifest["metadata"]["annotations"],
                namespace=manifest["metadata"]["namespace"],
                owner_uid=manifest["metadata"]["ownerReferences"][0]["uid"],
            )
        if ref.kind == "Deployment":
            self._deploy(ref.name, fresh)
        return ref

    def _deploy(self, name: str, manifest: dict[str, Any]) -> None:
        template = manifest["spec"]["template"]["metadata"]["annotations"]
        state = self.rolled.get(name) or DeploymentState(name, "", 0, 0, 0, 0, 0, 0, 0)
        digest = template[labels.SERVING_HASH]
        marks = manifest["metadata"].get("annotations", {})
        self.rolled[name] = replace(
            state,
            spec_digest=marks.get(labels.SPEC_DIGEST, ""),
            by_turns=marks.get(labels.BY_TURNS) == digest,
            was_complete=state.was_complete and state.serving_hash == digest,
            generation=state.generation + 1,
            wanted=manifest["spec"]["replicas"],
            updated=state.updated if state.serving_hash == digest else 0,
            serving_hash=digest,
            template=manifest["spec"]["template"],
        )

    def _uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"

    def _collect(self, owner: str) -> None:
        for ref, manifest in list(self.objects.items()):
            owners = manifest["metadata"].get("ownerReferences", [])
            if owner not in {one["uid"] for one in owners} or ref not in self.objects:
                continue
            left = [one for one in owners if one["uid"] != owner]
            if left:
                manifest["metadata"]["ownerReferences"] = left
                continue
            self.say(f"  garbage collector: deletes {ref.kind} {ref.name}")
            del self.objects[ref]
            self._forget(ref)
            self._collect(manifest["metadata"]["uid"])

    def _forget(self, ref: Ref) -> None:
        if ref.kind == "Job":
            self.jobs.pop(ref.name, None)
        if ref.kind == "Deployment":
            self.rolled.pop(ref.name, None)
            self.pods.pop(ref.name, None)

    def _observed(self, model: Snapshot) -> Observed:
        own = {
            ref: manifest
            for ref, manifest in self.objects.items()
            if manifest["metadata"]["labels"].get(labels.MODEL) == model.name
        }
        engines = {
            ref.name: self._engine(ref.name)
            for ref, manifest in self.objects.items()
            if ref.kind == "ConfigMap" and labels.FINGERPRINT in manifest["metadata"]["labels"]
        }
        return Observed(
            configs={ref.name: _config(one) for ref, one in own.items() if ref.kind == "ConfigMap"},
            jobs={ref.name: self.jobs[ref.name] for ref in own if ref.kind == "Job"},
            engines=engines,
            owned_engines=frozenset(
                name
                for name, engine in engines.items()
                if engine.config and model.uid in {one.uid for one in engine.config.owners}
            ),
            store=self._store(),
            deployment=self.rolled.get(model.name),
            pods=self.pods.get(model.name, ()),
            encoders=self.rolled.get(names.encoders(model.name)),
            encoder_pods=self.pods.get(names.encoders(model.name), ()),
            refs=frozenset(own),
        )

    def _engine(self, name: str) -> EngineState:
        config = self.objects[Ref("ConfigMap", name)]
        jobs = tuple(job for job in self.jobs.values() if job.name.startswith(f"{name}-"))
        return EngineState(_config(config), jobs)

    def _store(self) -> ClaimState | None:
        found = [one for ref, one in self.objects.items() if ref.kind == "PersistentVolumeClaim"]
        if not found:
            return None
        spec = found[0]["spec"]
        return ClaimState(
            name=found[0]["metadata"]["name"],
            phase="Bound",
            size=spec["resources"]["requests"]["storage"],
            storage_class=spec.get("storageClassName"),
            access_modes=tuple(spec["accessModes"]),
            owners=_owners(found[0]),
        )


def _config(manifest: Mapping[str, Any]) -> ConfigState:
    metadata = manifest["metadata"]
    return ConfigState(
        name=metadata["name"],
        uid=metadata["uid"],
        data=manifest["data"],
        labels=metadata["labels"],
        owners=_owners(manifest),
    )


def _owners(manifest: Mapping[str, Any]) -> tuple[Owner, ...]:
    found = manifest["metadata"].get("ownerReferences", ())
    return tuple(Owner(one["name"], one["uid"]) for one in found)
