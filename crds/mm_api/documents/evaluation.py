"""What an engine must answer: greedy answers of the checkpoint, kept by the build with the engine.

The build computes them from the checkpoint on the processor, the gateway of each pod compares them
with what is served before the pod is Ready, and its report reaches the operator in `ServerState`.
"""

from typing import Annotated, Literal

from pydantic import Field

from mm_api.base import Document
from mm_api.documents.build_plan import FINGERPRINT_PATTERN

EVALUATION_NAME = "evaluation.json"
"""Beside the manifest, which covers it."""

MOST_BYTES = 1 << 20
"""Size of the document: eight prompts of eight tokens took 20 KiB."""

MOST_PROMPTS = 8

MOST_COMPARED = 20
"""Prompts of a comparison that a user starts."""

MOST_TOKENS = 8
"""Length of an answer: a damaged weight, tokenizer or projector shows in the first few."""

MOST_CANDIDATES = 5
_ANSWER_CHARACTERS = 4096
SHOWN_CHARACTERS = 200

Shown = Annotated[str, Field(max_length=SHOWN_CHARACTERS)]


class Candidate(Document):
    """One of the likeliest tokens of a step."""

    token: int = Field(ge=0)
    text: str = Field(
        max_length=_ANSWER_CHARACTERS, description="Of the answer up to and with this token."
    )
    logit: float
    ends: bool = Field(default=False, description="The token ends the answer.")


class EvaluationStep(Document):
    """One token of a greedy answer."""

    candidates: list[Candidate] = Field(
        min_length=2, max_length=MOST_CANDIDATES, description="The likeliest first: the answer's."
    )
    spread: float = Field(
        ge=0, description="Standard deviation of all logits: the scale of their differences."
    )
    log_sum: float | None = Field(
        default=None,
        description="Logarithm of the sum of all exponentials: a logit less this is a log "
        "probability. None: of a build before it was kept.",
    )


class EvaluationPrompt(Document):
    """One prompt and its greedy answer."""

    text: str = Field(max_length=_ANSWER_CHARACTERS, description="As Triton's `text_input`.")
    image: int | None = Field(
        default=None, ge=0, le=7, description="Which of the runtime's own images. None: no image."
    )
    audio_hertz: float | None = Field(
        default=None, gt=0, lt=10_000, description="Tone of the audio. None: no audio."
    )
    adapter: int | None = Field(
        default=None, ge=0, description="Uid of the LoRA adapter that answers. None: no adapter."
    )
    steps: list[EvaluationStep] = Field(min_length=1, max_length=MOST_TOKENS + 1)


class Evaluation(Document):
    """Prompts with the answers of the checkpoint itself."""

    format_version: Literal[1] = 1
    fingerprint: str = Field(pattern=FINGERPRINT_PATTERN)
    dtype: str = Field(max_length=32, description="What the answers were computed in.")
    prompts: list[EvaluationPrompt] = Field(min_length=1, max_length=MOST_PROMPTS)


class FirstDifference(Document):
    """Where a served answer first left the checkpoint's, and by how much."""

    prompt: Shown = Field(description="As it was sent; templates go around it.")
    adapter: int | None = Field(
        default=None, description="Uid of the LoRA adapter that answered. Absent: the base model."
    )
    token: int = Field(ge=1, description="Of the answer, the first is 1.")
    expected: Shown = Field(description="Text of the checkpoint's answer up to this token.")
    answered: Shown = Field(description="Text that was served.")
    distance: float = Field(
        ge=0,
        description="By how much the checkpoint prefers its token to the served one, in standard "
        "deviations of its logits; of a token that is not among the likeliest, at the least. Of "
        "the same token: by how much its log probability differs.",
    )
    bound: float = Field(
        ge=0, description="Below this two tokens are nearly tied, or log probabilities the same."
    )
    log_prob: float | None = Field(
        default=None, description="Of the token, as served. Absent: the tokens differ."
    )


class ReferenceFigures(Document):
    """What a comparison with answers that were computed for it found besides."""

    dtype: str = Field(max_length=32, description="What the checkpoint's answers were computed in.")
    bound: float = Field(
        ge=0,
        description="Standard deviations of the checkpoint's logits below which two tokens are "
        "nearly tied, or log probabilities equal: by what the engine computes in.",
    )
    mean_log_prob_distance: float | None = Field(
        default=None,
        ge=0,
        description="Of the log probabilities of equal tokens, in standard deviations of the "
        "checkpoint's logits. Absent: the server returned none.",
    )
    first_differing_token: int | None = Field(
        default=None,
        ge=1,
        description="Least place in an answer at which another token was served, near-ties "
        "included. Absent: all tokens were equal.",
    )


class EvaluationReport(Document):
    """What came out when a server was compared with the checkpoint."""

    fingerprint: str = Field(pattern=FINGERPRINT_PATTERN, description="Of the engine.")
    prompts: int = Field(ge=1, le=MOST_COMPARED, description="Prompts that were answered.")
    tokens: int = Field(ge=0, description="Tokens that were compared.")
    agreed: int = Field(ge=0, description="Of them, those that were equal.")
    near_ties: int = Field(
        ge=0,
        le=MOST_COMPARED,
        description="Prompts whose answers part where two tokens are nearly tied.",
    )
    failed_prompts: int = Field(ge=0, le=MOST_COMPARED, description="Prompts with a difference.")
    log_prob_distance: float | None = Field(
        default=None,
        ge=0,
        description="Largest difference of the log probabilities of equal tokens, in standard "
        "deviations of the checkpoint's logits. Absent: the server returned none.",
    )
    first_difference: FirstDifference | None = Field(
        default=None, description="None: the engine answers like its checkpoint."
    )
    reference: ReferenceFigures | None = Field(
        default=None, description="Of `mmctl compare`. Absent: pods compared kept answers."
    )

    @property
    def problem(self) -> str | None:
        """Return a difference as sentences: prompt, token, distance, what to do; None: none."""
        first = self.first_difference
        if first is None:
            return None
        adapter = "" if first.adapter is None else f" (adapter {first.adapter})"
        tolerated = (
            f"below {first.bound:.2f} two tokens are nearly tied"
            if first.log_prob is None
            else f"up to {first.bound:.2f} two log probabilities of a token count as equal: this "
            f"one was served with {first.log_prob:.2f}"
        )
        return (
            f"the engine does not answer like its checkpoint: {self.failed_prompts} of "
            f"{self.prompts} prompts differ. First: {first.prompt!r}{adapter}, token "
            f"{first.token}: expected {first.expected!r}, answered {first.answered!r}; distance "
            f"{first.distance:.2f}, and {tolerated}. Build the engine again, or use another "
            "quantization or image; spec.build.evaluation Off serves it unchecked"
        )
