"""Send questions about images with known answers, with the official OpenAI client."""

import base64
import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mm_devcluster.demo import settings
from mm_devcluster.demo.graph import Report
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.target import Target
from mm_devcluster.errors import DevClusterError

if TYPE_CHECKING:
    from openai import OpenAI

FORWARD_TIMEOUT = 30.0  # seconds until kubectl listens
ANSWER_TIMEOUT = 60.0  # seconds; measured well under one
MAX_TOKENS = 24  # the longest known answer has 11 words
IMAGES = 3
VIDEO = ".mp4"

FRAMES_A_SECOND = 2
"""Sampled from a video: as many as the model was trained with."""


@dataclass(frozen=True)
class Question:
    """An image or a video, a question about it, and the right answer."""

    image: Path
    text: str
    expected: str


@dataclass(frozen=True)
class Answer:
    """What came back."""

    question: Question
    text: str
    streamed: bool
    first_token_seconds: float
    """From sending the request to the first text; of a plain request, to the complete answer."""
    pieces: int
    """Chunks that carried text."""

    @property
    def is_right(self) -> bool:
        """Whether the words are the expected ones."""
        return words_of(self.text) == words_of(self.question.expected)


def words_of(text: str) -> list[str]:
    """Reduce an answer to its words: case, spaces and a full stop do not make it wrong."""
    return re.findall(r"[a-z0-9]+", text.lower())


def read_questions(folder: Path) -> list[Question]:
    """Read images and their known answers.

    Raises:
        DevClusterError: The folder has no answers.json.
    """
    path = folder / "answers.json"
    try:
        entries: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DevClusterError(f"{path} is missing: it holds the known answers") from error
    return [
        Question(folder / image, text, expected)
        for image, known in entries.items()
        for text, expected in known.items()
    ]


def choose_questions(questions: list[Question], images: int) -> list[Question]:
    """Choose one question for each of the first images, no question twice while others are left.

    Args:
        questions: All that are known.
        images: How many images.
    """
    chosen: list[Question] = []
    for question in questions:
        seen_image = any(question.image == other.image for other in chosen)
        seen_text = any(question.text == other.text for other in chosen)
        if len(chosen) < images and not seen_image and not seen_text:
            chosen.append(question)
    return chosen or questions[:images]


def load_client(_session: Session, _report: Report) -> str:
    """Import it before it is waited for."""
    import openai  # noqa: PLC0415 (takes a second, and stages are planned without it)

    return f"openai {openai.__version__}"


def send_questions(session: Session, report: Report, answers: list[Answer]) -> str:
    """Send each question twice, plain and streaming, through the gateway's Service.

    Args:
        session: The run.
        report: Receives progress.
        answers: Receives every answer, right or wrong.

    Raises:
        DevClusterError: An answer is wrong, or a request failed.
    """
    questions = choose_questions(read_questions(session.options.family.samples), IMAGES)
    model = session.options.family.model
    with forwarded(session.target, model) as address:
        import openai  # noqa: PLC0415 (see load_client)

        client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", timeout=ANSWER_TIMEOUT)
        for question in questions:
            report(f"{question.image.name}: {question.text}")
            answers.append(_send(client, model, question, streamed=False))
            answers.append(_send(client, model, question, streamed=True))
    wrong = [answer for answer in answers if not answer.is_right]
    if wrong:
        raise DevClusterError(
            f"{len(wrong)} of {len(answers)} answers are wrong; the first: sent "
            f"{wrong[0].question.text!r} about {wrong[0].question.image.name}, got "
            f"{wrong[0].text!r}, expected {wrong[0].question.expected!r}"
        )
    return f"{len(answers)} answers, all right"


def content_of(question: Question) -> list[dict[str, Any]]:
    """Return the parts of a chat message: the image or video as a data URL, and the text."""
    encoded = base64.b64encode(question.image.read_bytes()).decode()
    media: dict[str, Any]
    if question.image.suffix == VIDEO:
        url = f"data:video/mp4;base64,{encoded}"
        media = {"type": "video_url", "video_url": {"url": url, "fps": FRAMES_A_SECOND}}
    else:
        url = f"data:image/png;base64,{encoded}"
        media = {"type": "image_url", "image_url": {"url": url}}
    return [media, {"type": "text", "text": question.text}]


def _send(client: "OpenAI", model: str, question: Question, *, streamed: bool) -> Answer:
    messages: Any = [{"role": "user", "content": content_of(question)}]
    arguments: Any = {"model": model, "messages": messages, "max_tokens": MAX_TOKENS}
    began = time.monotonic()
    if not streamed:
        reply = client.chat.completions.create(**arguments, temperature=0)
        seconds = time.monotonic() - began
        return Answer(question, reply.choices[0].message.content or "", streamed, seconds, 1)
    pieces: list[str] = []
    first = 0.0
    for chunk in client.chat.completions.create(**arguments, temperature=0, stream=True):
        text = chunk.choices[0].delta.content if chunk.choices else None
        if text:
            first = first or time.monotonic() - began
            pieces.append(text)
    return Answer(question, "".join(pieces), streamed, first, len(pieces))


@contextmanager
def forwarded(target: Target, model: str) -> Iterator[str]:
    """Forward a free local port to the model's Service and yield its address.

    Raises:
        DevClusterError: kubectl could not.
    """
    command = [str(target.kubectl), "port-forward", f"service/{model}", ":80"]
    command += ["--namespace", settings.DEMO_NAMESPACE, "--address", "127.0.0.1"]
    process = subprocess.Popen(
        command,
        env=target.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        # Its first line names the port; without one it has ended and says why.
        line = process.stdout.readline() if process.stdout else ""
        match = re.search(r"127\.0\.0\.1:(\d+)", line)
        if match is None:
            raise DevClusterError(f"kubectl port-forward to {model} failed: {line.strip()}")
        yield f"http://127.0.0.1:{match[1]}"
    finally:
        process.terminate()
        try:
            process.communicate(timeout=FORWARD_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
