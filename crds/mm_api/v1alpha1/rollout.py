"""`spec.rollout`: how pods of a new revision replace the old ones."""

from typing import Annotated, Literal

from pydantic import Field

from mm_api.base import ApiModel
from mm_api.v1alpha1.duration import Duration

Strategy = Literal["Rolling", "Recreate", "Canary"]


Percent = Annotated[int, Field(ge=1, le=1000)]


class CanaryStep(ApiModel):
    """A weight of the new revision, and how long it has it at least."""

    weight: int = Field(
        ge=1,
        le=99,
        description="Percent of the chats that the router sends to the new revision. It has as "
        "many pods as this part of spec.replicas, rounded up.",
    )
    pause: Duration | None = Field(
        default=None,
        description="Shortest time with this weight. Absent: until the analysis passes.",
    )


class CanaryAnswers(ApiModel):
    """Chats that the stable revision answered are sent once more to both, at temperature 0.

    Beside clients, whose requests come first, and without their keys. Nothing of them is stored.
    """

    agreement_percent: int = Field(
        default=90,
        ge=60,
        le=99,
        description="Percentage of chats that must get the same text from both revisions. The new "
        "one is rolled back once it is known that fewer do, and passes once it is known that less "
        "than twice as many differ as this tolerates.",
    )
    modalities: Annotated[list[Literal["text", "image"]], Field(min_length=1, max_length=2)] = (
        Field(
            default=["text", "image"],
            description="Chats without images and chats with images are compared separately; a "
            "step passes once each of these has. image does not count where the model reads none.",
        )
    )
    samples_per_minute: int = Field(
        default=30,
        ge=1,
        le=600,
        description="Most chats of each modality that each router replays in a minute.",
    )
    max_tokens: int = Field(
        default=32,
        ge=1,
        le=256,
        description="Longest answer. The longer, the more of them differ after two tokens that "
        "are nearly as likely as each other.",
    )


class CanaryAnalysis(ApiModel):
    """What the new revision must not do worse than the stable one.

    Answers to requests of like size are compared in pairs, one of each revision within a minute.
    """

    error_increase_percent: int = Field(
        default=5,
        ge=1,
        le=50,
        description="A step passes once it is known that the error rate (status 400 and above) is "
        "above the stable revision's by fewer percentage points than this.",
    )
    first_text_increase_percent: Percent | None = Field(
        default=None,
        description="By how much later, in percent, the first text may come (the entire answer, "
        "where it is not a stream). Absent: not compared.",
    )
    inter_token_increase_percent: Percent | None = Field(
        default=None,
        description="By how much longer, in percent, the time between two events of a stream may "
        "be. Absent: not compared. Without streams a step never passes.",
    )
    answers: CanaryAnswers | None = Field(
        default=None,
        description="Replays chats of users and compares the answers. Absent: nothing is replayed.",
    )


class CanarySpec(ApiModel):
    """Steps of strategy Canary."""

    steps: Annotated[list[CanaryStep], Field(min_length=1, max_length=16)] = Field(
        description="Weights in their order. After the last one every pod is replaced."
    )
    analysis: CanaryAnalysis = Field(
        default=CanaryAnalysis(), description="What is compared at each step."
    )


class RolloutSpec(ApiModel):
    """How a new revision is rolled out."""

    strategy: Strategy = Field(
        default="Rolling",
        description="Rolling replaces pods one by one and by default never goes below the wanted "
        "number, which takes a free GPU for each GPU of a pod. Recreate ends every pod before the "
        "first new one starts: no GPU has to be free, and nothing answers in between. Canary sends "
        "a part of the chats to pods of the new revision first, compares them with the stable one, "
        "and goes back by itself where they are worse; it needs the router.",
    )
    canary: CanarySpec | None = Field(
        default=None, description="Steps and comparisons of strategy Canary."
    )
    max_surge: int | None = Field(
        default=None,
        ge=0,
        le=1000,
        description="Pods above the wanted number during a rollout with strategy Rolling, or after "
        "the steps of Canary. 0: an old pod ends before its successor starts, so that no GPU has "
        "to be free; needs a maxUnavailable of 1 or more. Absent: 1.",
    )
    max_unavailable: int | None = Field(
        default=None,
        ge=0,
        le=1000,
        description="Pods below the wanted number in the same time; with one replica, 1 means that "
        "nothing answers meanwhile, or with Canary the new revision alone. Absent: 0.",
    )
    require_evaluation: bool = Field(
        default=False,
        description="Ready waits for an evaluation of the served engine without a difference, in "
        "status.evaluation: of the pods (build.evaluation), or of mmctl compare. false: an engine "
        "that nothing was compared with may be Ready.",
    )
    progress_deadline: Duration = Field(
        default="30m",
        description="A rollout without progress for so long is reported as stuck. With Canary, a "
        "step that does not pass so long after its pause goes back to the stable revision.",
    )
    drain_timeout: Duration | None = Field(
        default=None,
        description="Longest time a pod may take to finish its requests; at least 2s more than "
        "gateway.requestTimeout. Absent: exactly that.",
    )
