"""What became of one request. Times are seconds since the run began."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """One request, answered or not.

    Attributes:
        due: when it should have been sent; latency counts from here, so that a client or a server
            that falls behind cannot hide it.
        sent: when it was sent.
        ended: when its last byte, or its failure, came.
        images: images in it.
        error: what went wrong, as one word; empty when it was answered.
        first_token: when its first token came; None when none did.
        gaps: seconds between the pieces of its answer.
        prompt_tokens: as the server counted them, 0 when it did not say.
        output_tokens: the same for the answer.
        turn: of its chat, the first is 1.
    """

    due: float
    sent: float
    ended: float
    images: int
    error: str = ""
    first_token: float | None = None
    gaps: tuple[float, ...] = ()
    prompt_tokens: int = 0
    output_tokens: int = 0
    turn: int = 1

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds from when it was due to its first token."""
        return None if self.first_token is None else self.first_token - self.due

    @property
    def end_to_end(self) -> float:
        """Seconds from when it was due to its end."""
        return self.ended - self.due
