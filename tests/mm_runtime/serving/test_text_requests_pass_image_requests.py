"""What needs no encoder is answered while images are encoded; images that wait go together."""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from mm_runtime.serving.encode.encoding import Outputs
from mm_runtime.serving.encode.queue import CLOSE_SECONDS, EncodeQueue, Results
from mm_runtime.serving.tensors import Tensors
from mm_runtime.settings import EXIT_SECONDS
from support.encoder_requests import SECONDS, Submitted, image_tensors, reads
from support.eventually import eventually
from support.middle_llava import build_middle_llava, new_image
from support.real_gateway import run_pair


@dataclass
class _Encoder(Submitted):
    may_go: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)
    batches: list[list[int]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def queue(self, together: int, senders: int = 0) -> EncodeQueue:
        return EncodeQueue(
            self.encode,
            reads=reads,
            together=together,
            begins=lambda: None,
            waited=self.waits.append,
            senders=senders,
        )

    def encode(self, requests: Sequence[Tensors]) -> Results:
        self.begun.set()
        assert self.may_go.wait(SECONDS)
        self.batches.append([one["IMAGE"].item() for one in requests])
        return [{"TABLE": one["IMAGE"]} for one in requests]


def test_text_is_answered_while_an_image_is_encoded() -> None:
    """So is a wrong image; images that came meanwhile are encoded together, in order.

    What they waited is reported: until the one before was encoded, at least.
    """
    encoder = _Encoder()
    waiting = encoder.queue(together=3)
    encoder.submit(waiting, 0, image_tensors(0))
    assert encoder.begun.wait(SECONDS)
    for number in (1, 2, 3, 4):
        encoder.submit(waiting, number, image_tensors(number))
    encoder.submit(waiting, 5, {})
    encoder.submit(waiting, 6, image_tensors(-1))
    came = time.monotonic()

    assert [encoder.answer(), encoder.answer()] == [(5, ""), (6, "a wrong image")]
    least = time.monotonic() - came
    encoder.may_go.set()
    assert [(number, "TABLE") for number in range(5)] == [encoder.answer() for _ in range(5)]
    waiting.close()
    assert encoder.batches == [[0], [1, 2, 3], [4]]
    assert len(encoder.waits) == 5
    assert min(encoder.waits[1:]) >= least


def test_a_defect_is_reported_and_the_next_image_encoded() -> None:
    def encode(requests: Sequence[Tensors]) -> Results:
        if requests[0]["IMAGE"].item() == 0:
            raise ValueError("the engine is broken")
        return [{"TABLE": one["IMAGE"]} for one in requests]

    def refused(_: Outputs | Exception) -> None:
        raise OSError("the server has gone")

    encoder = _Encoder()
    waiting = EncodeQueue(
        encode, reads=reads, together=1, begins=lambda: None, waited=lambda _: None
    )
    encoder.submit(waiting, 0, image_tensors(0))
    waiting.submit(image_tensors(1), refused)
    encoder.submit(waiting, 2, image_tensors(2))

    assert [encoder.answer(), encoder.answer()] == [(0, "the engine is broken"), (2, "TABLE")]
    waiting.close()


def test_the_next_image_is_encoded_while_one_is_sent() -> None:
    """One more at the most: features of two batches are held."""
    encoder, may_leave = _Encoder(), threading.Event()
    encoder.may_go.set()

    def sends(_: Outputs | Exception) -> None:
        may_leave.wait(SECONDS)

    waiting = encoder.queue(together=1, senders=1)
    for number in range(3):
        waiting.submit(image_tensors(number), sends)
    eventually(lambda: encoder.batches == [[0], [1]])
    waiting.close(0.1)
    assert encoder.batches == [[0], [1]]
    may_leave.set()
    waiting.close(SECONDS)
    assert encoder.batches == [[0], [1], [2]]


def test_the_end_waits_for_what_was_put() -> None:
    encoder = _Encoder()
    waiting = encoder.queue(together=2)
    for number in range(3):
        encoder.submit(waiting, number, image_tensors(number))
    encoder.may_go.set()
    waiting.close()
    assert [encoder.answer()[0] for _ in range(3)] == [0, 1, 2]


def test_an_encoder_that_never_returns_holds_up_no_end(caplog: pytest.LogCaptureFixture) -> None:
    """The log says that it hangs, and the server continues with its end."""
    encoder = _Encoder()
    waiting = encoder.queue(together=1)
    encoder.submit(waiting, 0, image_tensors(0))
    assert encoder.begun.wait(SECONDS)
    waiting.close(0.01)
    assert "the encoder has not ended after 0.01 s" in caplog.text
    encoder.may_go.set()
    caplog.clear()
    waiting.close(SECONDS)
    assert (encoder.answer(), caplog.text) == ((0, "TABLE"), "")


def test_triton_has_time_for_an_encoder_that_never_returns() -> None:
    """Its turn comes within a second, its process takes half of one, and Triton looks each second.

    Triton gets half of the time after which its supervisor kills it.
    """
    assert 1 + CLOSE_SECONDS + 0.5 + 1 <= EXIT_SECONDS / 2


@pytest.mark.slow
@pytest.mark.triton
def test_a_real_server_answers_text_beside_images(tmp_path: Path) -> None:
    """Eight images need four runs of the encoder; a question without one waits for one at most.

    It comes when the first run is over: so three are to come or under way.
    """
    images, together = 8, 2

    async def query(http: httpx.AsyncClient, model: str, content: object) -> None:
        body = {"model": model, "messages": [{"role": "user", "content": content}]}
        answer = await http.post("/v1/chat/completions", json=body | {"max_tokens": 1})
        answer.raise_for_status()

    async def measure(url: str, model: str) -> int:
        async with httpx.AsyncClient(base_url=url, timeout=120) as http:
            requested = []
            for number in range(images):
                image = {"type": "image_url", "image_url": {"url": new_image(number)}}
                content = [image, {"type": "text", "text": "What is in the image?"}]
                requested.append(asyncio.create_task(query(http, model, content)))
            await asyncio.wait(requested, return_when=asyncio.FIRST_COMPLETED)
            await query(http, model, "Hello!")
            left = sum(not task.done() for task in requested)
            await asyncio.gather(*requested)
            return left

    built = build_middle_llava(tmp_path, together)
    with run_pair(built, tmp_path, max_concurrency=images + 1) as pair:
        left = asyncio.run(measure(pair.url, pair.model))
    assert left >= together
