"""Requests of a comparison, each as the client sends it and as the model's prompt."""

import base64
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from PIL import Image

from mm_api.documents.evaluation import MOST_COMPARED, MOST_TOKENS
from mm_runtime.engine_build.commands.checkpoint_answers import ABOUT_IMAGES, SENTENCES, Question
from mm_runtime.gateway.api.parsing import parse_chat
from mm_runtime.gateway.prompts.conversation import ChatPrompt
from mm_runtime.images.sample import evaluation_images

_MORE_QUESTIONS: Final = (
    "What shape is it?",
    "Is there anything red?",
    "What is on the left?",
)
_SUBJECTS: Final = ("the cat", "my old friend", "a small train", "the garden", "our neighbour")
_PREDICATES: Final = ("was late because of the snow .", "is wonderful .", "waits for the guests .")
_TASKS: Final = ("translate English to German: ", "summarize: ")


@dataclass(frozen=True, slots=True)
class Request:
    """One request, its path below `/v1`, and the same as a prompt of the checkpoint."""

    path: str
    body: Mapping[str, Any]
    question: Question


def about_images(chat: ChatPrompt, model: str) -> Iterator[Request]:
    texts = dict.fromkeys([text for _, text in ABOUT_IMAGES] + list(_MORE_QUESTIONS))
    images = [_data_url(number) for number in range(len(evaluation_images()))]
    pairs = list(product(range(len(images)), texts))[:MOST_COMPARED]
    for number, text in pairs:
        part = {"type": "image_url", "image_url": {"url": images[number]}}
        body = _chat([part, {"type": "text", "text": text}], model)
        yield Request("chat/completions", body, Question(_written(chat, body), image=number))


def about_texts(chat: ChatPrompt, model: str) -> Iterator[Request]:
    for text in _texts():
        body = _chat([{"type": "text", "text": text}], model)
        yield Request("chat/completions", body, Question(_written(chat, body)))


def of_texts(model: str) -> Iterator[Request]:
    """Yield texts for encoder-decoders: the text is the prompt."""
    for text in _texts():
        body = {"prompt": text, "logprobs": 0, **_greedy(model)}
        yield Request("completions", body, Question(text))


def _texts() -> list[str]:
    made = [f"{task}{who} {does}" for task, who, does in product(_TASKS, _SUBJECTS, _PREDICATES)]
    return [*SENTENCES, *made][:MOST_COMPARED]


def _chat(content: list[dict[str, Any]], model: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": content}]
    return {"messages": messages, "logprobs": True, **_greedy(model)}


def _greedy(model: str) -> dict[str, Any]:
    return {"model": model, "max_tokens": MOST_TOKENS, "temperature": 0, "seed": 0}


def _written(chat: ChatPrompt, body: Mapping[str, Any]) -> str:
    request = parse_chat(json.dumps(body).encode(), "application/json")
    return chat.write(chat.split(request))


def _data_url(number: int) -> str:
    file = io.BytesIO()
    Image.fromarray(evaluation_images()[number]).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
