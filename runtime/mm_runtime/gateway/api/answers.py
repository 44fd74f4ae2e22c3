"""The choices of one plain answer while they are generated, and which of them count."""

from collections.abc import Sequence

from mm_runtime.gateway.api.completions import Answer
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import TokenScore, mean_log_prob


class Answers:
    """What has come of each choice.

    Args:
        choices: of all prompts.
        each: of each prompt, those of the first one first.
    """

    def __init__(self, choices: int, each: int) -> None:
        self._each = each
        self._texts: list[list[str]] = [[] for _ in range(choices)]
        self._scores: list[list[TokenScore]] = [[] for _ in range(choices)]
        self._reasons = [FinishReason.STOP] * choices

    def add(self, choice: int, text: str, scores: Sequence[TokenScore]) -> None:
        """Take some more text of a choice."""
        self._texts[choice].append(text)
        self._scores[choice] += scores

    def end(self, choice: int, reason: FinishReason) -> None:
        self._reasons[choice] = reason

    def best(self, count: int) -> list[Answer]:
        """Return so many of each prompt: all in their order, or the likeliest for their length."""
        made = [
            Answer("".join(texts), reason, tuple(scores))
            for texts, reason, scores in zip(self._texts, self._reasons, self._scores, strict=True)
        ]
        of_prompts = (made[at : at + self._each] for at in range(0, len(made), self._each))
        return [answer for answers in of_prompts for answer in _best(answers, count)]


def _best(answers: list[Answer], count: int) -> list[Answer]:
    if count < len(answers):
        answers.sort(key=lambda one: mean_log_prob(one.scores), reverse=True)
    return answers[:count]
