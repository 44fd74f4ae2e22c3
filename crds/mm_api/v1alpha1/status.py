"""`status`: what the operator knows about a model. Written by the operator only."""

from typing import Annotated, Literal

from pydantic import Field

from mm_api.base import ApiModel, Short
from mm_api.documents.evaluation import EvaluationReport
from mm_api.v1alpha1.plan_status import PlanStatus

Text = Annotated[str, Field(max_length=32_768)]


class Condition(ApiModel):
    """One aspect of the state (the Kubernetes convention)."""

    type: Annotated[str, Field(min_length=1, max_length=316)] = Field(
        description="Which aspect: Ready, Available, Planned, EngineBuilt, RollingOut, "
        "ScalingActive, EncodersReady or Degraded."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: Annotated[str, Field(min_length=1, max_length=1024)] = Field(
        description="Why, as one word for programs."
    )
    message: Text = Field(default="", description="Why, as a sentence for people.")
    last_transition_time: Short = Field(description="When `status` last changed, RFC 3339.")
    observed_generation: int = Field(
        ge=0, description="metadata.generation this was computed from."
    )


class BuildStatus(ApiModel):
    """Summary of the build."""

    fingerprint: Short | None = Field(default=None, description="Fingerprint that is built.")
    phase: Literal["Pending", "Waiting", "Building", "Succeeded", "Failed"] | None = Field(
        default=None,
        description="Pending: no pod builds yet. Waiting: another Job builds this engine. "
        "Building, Succeeded or Failed: the build runs, is complete, or failed.",
    )
    step: Short | None = Field(default=None, description="Step that runs now.")
    progress: Short | None = Field(
        default=None,
        description='How far the build is: "3 of 5", "3 of 5, 40 %" where the tool reports it, or '
        '"2 of 5, 40 % of 13.5 GiB" where bytes are moved.',
    )
    started_at: Short | None = Field(
        default=None, description="When the pod that builds started, RFC 3339."
    )
    job_name: Short | None = Field(default=None, description="Name of the build Job.")
    message: Short | None = Field(default=None, description="The build in one sentence.")
    reused_from: Short | None = Field(
        default=None,
        description="Who built the engine that this model shares, as namespace/name; `store` when "
        "the store held it from before.",
    )
    attempts: int | None = Field(default=None, ge=0, description="Builds that were started.")
    manifest_sha256: Short | None = Field(
        default=None, description="Digest of the engine's manifest."
    )
    step_seconds: Annotated[dict[str, float], Field(max_length=64)] | None = Field(
        default=None, description="Seconds that each finished step took."
    )
    stored_bytes: int | None = Field(default=None, ge=0, description="Size of the engine's files.")
    failed_step: Short | None = Field(default=None, description="Step that failed last.")
    exit_code: int | None = Field(default=None, description="Exit code of the failed step.")


RolloutPhase = Literal["Progressing", "Promoting", "Promoted", "RolledBack"]


class ComparisonStatus(ApiModel):
    """One comparison of a canary's step with the stable revision, in pairs of requests."""

    name: Short = Field(
        description="Errors, FirstText, InterToken; of replayed chats TextAnswers, ImageAnswers."
    )
    worse: int = Field(
        ge=0, description="Pairs in which the new revision was worse, or answered otherwise."
    )
    better: int = Field(ge=0, description="Pairs in which the stable revision was.")
    equal: int = Field(ge=0, description="Other pairs.")
    verdict: Literal["Open", "Passed", "Worse"] = Field(
        description="Open: too few requests to know."
    )


class RolloutStatus(ApiModel):
    """The last rollout with strategy Canary."""

    phase: RolloutPhase = Field(
        description="Progressing: in a step. Promoting: the pods are replaced, and the canary "
        "answers meanwhile. Promoted or RolledBack: over."
    )
    revision: Short = Field(description="The new revision.")
    step: int = Field(ge=1, description="Number of its step.")
    weight: int = Field(ge=0, le=99, description="Percent of the chats that it gets now.")
    since: Short = Field(description="When this phase, step or weight began, RFC 3339.")
    reason: Short = Field(default="", description="Why it stays there, as one word.")
    message: Text = Field(default="", description="The same, in sentences.")
    comparisons: Annotated[list[ComparisonStatus], Field(max_length=8)] = Field(
        default=[], description="Of this step."
    )


class ScalingChange(ApiModel):
    """One change of the number of replicas."""

    time: Short = Field(description="When, RFC 3339.")
    from_replicas: int = Field(ge=0, description="Before.")
    to_replicas: int = Field(ge=0, description="After.")
    reason: Short = Field(description="Why.")


class ObjectiveStatus(ApiModel):
    """One objective as it was last measured."""

    name: Short = Field(description="Name of the objective, for example TimeToFirstTokenP95.")
    value: float | None = Field(
        default=None,
        description="The measured latency in seconds; absent when nothing was measured.",
    )
    target: float = Field(description="The latency to keep, in seconds.")
    met: bool | None = Field(default=None, description="Whether the target is kept.")


class WorkStatus(ApiModel):
    """Seconds of an entire replica that one unit of work takes, as the pods measured at start."""

    request_seconds: float = Field(ge=0, description="Of a request, whatever is in it.")
    image_token_seconds: float = Field(ge=0, description="Of a prompt token of an image.")
    text_token_seconds: float = Field(ge=0, description="Of any other prompt token.")
    output_token_seconds: float = Field(ge=0, description="Of a generated token.")


class ScalingStatus(ApiModel):
    """What the autoscaler wants and why."""

    desired: int | None = Field(default=None, ge=0, description="Replicas wanted.")
    current: int | None = Field(default=None, ge=0, description="Replicas requested now.")
    reason: Short | None = Field(default=None, description="Why so many, as one word.")
    message: Text | None = Field(default=None, description="Why so many, as sentences.")
    inputs: Annotated[dict[str, float], Field(max_length=64)] = Field(
        default={}, description="Numbers that the decision used."
    )
    vetoes: Annotated[list[Short], Field(max_length=16)] = Field(
        default=[], description="What held a change back."
    )
    objectives: Annotated[list[ObjectiveStatus], Field(max_length=16)] = Field(
        default=[], description="Each objective as it was last measured."
    )
    history: Annotated[list[ScalingChange], Field(max_length=16)] = Field(
        default=[], description="The last changes, newest first."
    )
    cold_start_seconds: float | None = Field(
        default=None, ge=0, description="From a pod being scheduled to its being ready, measured."
    )
    cold_start_phases: Annotated[dict[str, float], Field(max_length=8)] = Field(
        default={},
        description="Median seconds of each phase of the last starts: scheduled (from created), "
        "pulled, loaded, warm; total is from scheduled to ready.",
    )
    work: WorkStatus | None = Field(
        default=None,
        description="What work takes of a replica. Absent: not measured, slots are counted.",
    )
    work_problem: Text | None = Field(
        default=None,
        description="Why a cost that the pods measured is not the one that is counted with.",
    )


class EncodersStatus(ApiModel):
    """The vision encoders in pods of their own."""

    replicas: int = Field(ge=0, description="Encoders of every revision.")
    ready_replicas: int = Field(ge=0, description="Encoders that answer now.")
    scaling: ScalingStatus | None = Field(
        default=None,
        description="How many are wanted, and why. Absent: neither they nor replicas are scaled.",
    )


class MultimodalModelStatus(ApiModel):
    """State of a model."""

    observed_generation: int | None = Field(
        default=None, ge=0, description="metadata.generation this status was computed from."
    )
    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default=[],
        description="Aspects of the state.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )
    plan: PlanStatus | None = Field(default=None, description="Summary of the plan.")
    build: BuildStatus | None = Field(default=None, description="Summary of the build.")
    evaluation: EvaluationReport | None = Field(
        default=None,
        description="How the served engine compares with its checkpoint. Absent: not compared.",
    )
    replicas: int | None = Field(default=None, ge=0, description="Pods of every revision.")
    ready_replicas: int | None = Field(default=None, ge=0, description="Pods that can serve now.")
    ready_of_wanted: Short | None = Field(
        default=None,
        description="Pods that can serve now and spec.replicas, as `1/2`: what kubectl shows.",
    )
    encoders: EncodersStatus | None = Field(
        default=None,
        description="Encoders in pods of their own. Absent: vision.placement is Colocated.",
    )
    selector: Short | None = Field(
        default=None, description="Label selector of the pods, as the scale subresource needs it."
    )
    url: Short | None = Field(default=None, description="Base URL for OpenAI clients.")
    rollout: RolloutStatus | None = Field(
        default=None, description="The last rollout with strategy Canary. Absent: there was none."
    )
    scaling: ScalingStatus | None = Field(default=None, description="The autoscaler's view.")
