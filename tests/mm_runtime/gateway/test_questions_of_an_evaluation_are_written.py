"""A server that writes no prompt gets the checkpoint's template around an evaluation's question."""

from collections.abc import AsyncIterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from mm_api.documents.evaluation import EvaluationPrompt
from mm_runtime.base.chat_template import Media, Turn
from mm_runtime.gateway.backends.engine import EngineRequest, Text
from mm_runtime.gateway.warmup.answers import Answers
from support.cases import cases


def _written(turn: Turn) -> str:
    marks = (part if isinstance(part, str) else "<image>" for part in turn.parts)
    return f"USER: {''.join(marks)} ASSISTANT:"


@cases(
    "question prompt text",
    {
        "by-the-server": (None, "What?", " a square"),
        "here": (_written, "USER: <image>What? ASSISTANT:", "a square"),
    },
)
async def test_the_question_is_written_by_one_of_them(
    question: Any, prompt: str, text: str
) -> None:
    """With a mark for its image; the space before the first word, which the prompt caused, goes."""
    sent: list[EngineRequest] = []

    async def generate(request: EngineRequest) -> AsyncIterator[Text]:
        sent.append(request)
        yield Text(" a square")

    admission = SimpleNamespace(admit=nullcontext, slot=nullcontext)
    service: Any = SimpleNamespace(admission=admission, engine=SimpleNamespace(generate=generate))
    candidate = {"token": 10, "text": "a", "logit": 1.0, "ends": False}
    step = {"candidates": [candidate, candidate | {"token": 11}], "spread": 1.0, "logSum": 1.0}
    prompt_of_build = EvaluationPrompt.model_validate(
        {"text": "What?", "image": 0, "steps": [step]}
    )

    served = await Answers(service, 9.0, question).to_prompt(prompt_of_build)

    assert (sent[0].prompt, served.text) == (prompt, text)
    assert sent[0].turns == (Turn("user", (Media.IMAGE, "What?")),)
