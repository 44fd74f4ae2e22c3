"""The choices of one plain answer while they are generated."""

from collections.abc import Sequence

from mm_runtime.gateway.api.completions import Answer
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import TokenScore


class Answers:
    """What has come of each choice of all prompts, those of the first prompt first."""

    def __init__(self, choices: int) -> None:
        self._texts: list[list[str]] = [[] for _ in range(choices)]
        self._scores: list[list[TokenScore]] = [[] for _ in range(choices)]
        self._reasons = [FinishReason.STOP] * choices

    def add(self, choice: int, text: str, scores: Sequence[TokenScore]) -> None:
        self._texts[choice].append(text)
        self._scores[choice] += scores

    def end(self, choice: int, reason: FinishReason) -> None:
        self._reasons[choice] = reason

    @property
    def complete(self) -> list[Answer]:
        return [
            Answer("".join(texts), reason, tuple(scores))
            for texts, reason, scores in zip(self._texts, self._reasons, self._scores, strict=True)
        ]
