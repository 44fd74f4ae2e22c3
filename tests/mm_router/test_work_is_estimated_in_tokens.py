"""What a request holds is counted in tokens; replicas have as much to do."""

import asyncio
import base64
import io
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mm_router.catalog import Model
from mm_router.demand import (
    ANSWER_TOKENS,
    IMAGE_TOKENS,
    LEAST_IMAGE_TOKENS,
    MOST_ANSWER_TOKENS,
    REQUEST_TOKENS,
    UNPLANNED,
    VIDEO_IMAGES,
    Demand,
    ModelSize,
    Work,
    demand_of,
    pixels_of,
)
from mm_router.placement import FREE
from mm_router.reading import read_form
from support.cases import cases
from support.eventually import eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.routers import address_of, route
from support.scripted_engine import ScriptedEngine

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "image_url", "input_audio", "url", "data", "n", "max_tokens"]),
            inner | st.sampled_from(["image_url", "video_url", "input_audio", "data:;base64,/9j/"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


def image(form: str, size: tuple[int, int], **saved: Any) -> str:
    file = io.BytesIO()
    Image.new("RGB", size).save(file, form, **saved)
    return f"data:image/{form.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"


def of(*parts: dict[str, Any], **parameters: Any) -> Demand:
    """Return what a chat of one message holds, its own words aside."""
    request = {"messages": [{"role": "user", "content": list(parts)}], **parameters}
    empty = {"messages": [{"role": "user", "content": []}]}
    demand = demand_of(request)
    kinds = sum(len(part["type"]) for part in parts)
    assert demand.text >= demand_of(empty).text
    return Demand(
        max(0, demand.text - demand_of(empty).text - kinds),
        demand.images,
        demand.videos,
        demand.audio,
        demand.answers,
        demand.longest,
    )


@pytest.mark.parametrize("size", [(1, 1), (640, 480), (4000, 31)], ids=["dot", "photo", "line"])
@cases(
    "form saved",
    {
        "png": ("PNG", {}),
        "gif": ("GIF", {}),
        "jpeg": ("JPEG", {}),
        "jpeg-progressive": ("JPEG", {"progressive": True}),
        "jpeg-behind-exif": ("JPEG", {"exif": b"Exif\0\0" + b"\0" * 60_000}),
        "webp": ("WEBP", {}),
        "webp-lossless": ("WEBP", {"lossless": True}),
        "webp-extended": ("WEBP", {"exif": b"Exif\0\0II*\0"}),
    },
)
def test_headers_say_how_many_pixels(
    form: str, saved: dict[str, Any], size: tuple[int, int]
) -> None:
    assert pixels_of(image(form, size, **saved)) == size[0] * size[1]


@cases(
    "url",
    {
        "empty": "",
        "address": "https://example.org/cat.png",
        "no-base64": "data:image/png,plain",
        "nothing": "data:image/png;base64,",
        "no-alphabet": "data:image/png;base64,%%%%",
        "cut": "data:image/png;base64,iVBORw0KGgoAAAAN",
        "cut-jpeg": "data:image/jpeg;base64,/9j/4AAQ",
        "other-format": "data:image/bmp;base64,Qk0AAAAA",
    },
)
def test_what_has_no_header_has_no_size(url: str) -> None:
    assert pixels_of(url) == 0


@given(st.binary(max_size=64), st.sampled_from([b"", b"\xff\xd8", b"GIF89a", b"RIFF0000WEBPVP8X"]))
def test_any_bytes_are_read(content: bytes, start: bytes) -> None:
    """A header that lies makes a wrong estimate, and nothing else."""
    url = f"data:;base64,{base64.b64encode(start + content).decode()}"
    assert 0 <= pixels_of(url) <= 1 << 30


@cases(
    "part expected",
    {
        "text": ({"type": "text", "text": "four" * 100}, Demand(text=100)),
        "chinese": ({"type": "text", "text": "\u4e2d" * 100}, Demand(text=75)),
        "image": (
            {"type": "image_url", "image_url": {"url": image("PNG", (20, 30))}},
            Demand(images=(600,)),
        ),
        "image-of-responses": (
            {"type": "input_image", "image_url": image("PNG", (20, 30))},
            Demand(images=(600,)),
        ),
        "url": ({"type": "image_url", "image_url": {"url": "https://x"}}, Demand(images=(0,))),
        "no-image": ({"type": "image_url"}, Demand(images=(0,))),
        "video": ({"type": "video_url", "video_url": {"url": "data:,"}}, Demand(videos=1)),
        "recording": (
            {"type": "input_audio", "input_audio": {"data": "A" * 4096, "format": "wav"}},
            Demand(audio=3),
        ),
        "address": ({"type": "audio_url", "audio_url": {"url": "http://x"}}, Demand(audio=750)),
    },
)
def test_parts_are_counted(part: dict[str, Any], expected: Demand) -> None:
    found = of(part)
    assert abs(found.text - expected.text) <= 4
    assert found == Demand(found.text, expected.images, expected.videos, expected.audio, 1, None)


@cases(
    "parameters answers longest",
    {
        "none": ({}, 1, None),
        "several": ({"max_tokens": 7, "n": 3}, 3, 7),
        "newer-name": ({"max_tokens": 7, "max_completion_tokens": 9}, 1, 9),
        "responses": ({"max_output_tokens": 9}, 1, 9),
        "many": ({"n": 10**9}, 128, None),
        "prompts": ({"prompt": ["a", "b"], "n": 3, "max_tokens": 7}, 6, 7),
        "many-prompts": ({"prompt": ["a"] * 999}, 128, None),
        "no-prompt": ({"prompt": []}, 1, None),
        "malformed": ({"n": "2", "max_tokens": -1}, 1, None),
        "other-types": ({"n": True, "max_tokens": 1.5}, 1, None),
    },
)
def test_answers_are_counted(parameters: dict[str, Any], answers: int, longest: int | None) -> None:
    demand = demand_of(parameters)
    assert (demand.answers, demand.longest) == (answers, longest)


@cases(
    "demand size work",
    {
        "unplanned": (Demand(text=100), UNPLANNED, Work(132, ANSWER_TOKENS)),
        "rest-of-sequence": (Demand(text=100), ModelSize(1000), Work(132, ANSWER_TOKENS)),
        "longer-than-fits": (
            Demand(text=100, answers=2, longest=900),
            ModelSize(1000),
            Work(132, 2 * 868),
        ),
        "no-room": (Demand(text=5000), ModelSize(1000), Work(REQUEST_TOKENS + 1000, 1)),
        "a-sequence-for-each-prompt": (
            Demand(text=1568, answers=2, longest=900, prompts=2),
            ModelSize(1000),
            Work(1600, 2 * 200),
        ),
        "huge": (Demand(longest=10**18), UNPLANNED, Work(32, MOST_ANSWER_TOKENS)),
        "images": (
            Demand(images=(0, 784_000, 1), answers=0),
            UNPLANNED,
            Work(REQUEST_TOKENS + IMAGE_TOKENS + 1000 + LEAST_IMAGE_TOKENS),
        ),
        "as-the-plan-has-it": (
            Demand(images=(0, 784_000), videos=1, audio=5, longest=1),
            ModelSize(image=64),
            Work(REQUEST_TOKENS + 64 * (2 + VIDEO_IMAGES) + 5, 1),
        ),
        "priced": (
            Demand(images=(0,), text=100, longest=1),
            ModelSize(image=64, image_price=1.5, kept_price=0.5),
            Work(REQUEST_TOKENS + 100 + 96, 1, 32),
        ),
    },
)
def test_the_plan_bounds_what_is_counted(demand: Demand, size: ModelSize, work: Work) -> None:
    """Images have no more features and sequences no more tokens than the engine takes."""
    assert demand.work(size) == work


@given(
    st.dictionaries(st.text(max_size=4), ANY, max_size=4),
    ANY,
    st.builds(ModelSize, st.integers(0, 10**6), st.integers(0, 10**5)),
)
def test_every_request_weighs_something(
    request: dict[str, Any], messages: Any, size: ModelSize
) -> None:
    demand = demand_of({**request, "messages": messages, "max_tokens": messages})
    work = demand.work(size)

    assert work.prompt >= REQUEST_TOKENS
    assert work.answer >= 1
    assert work.tokens < 1 << 40


def test_a_form_weighs_as_much_as_its_audio() -> None:
    head = b'--b\r\nContent-Disposition: form-data; name="'
    body = head + b'model"\r\n\r\nw\r\n' + head + b'file"\r\n\r\n' + b"0" * 50_000 + b"\r\n--b--"

    reading = read_form(body, "multipart/form-data; boundary=b")

    assert reading.demand.audio == 49


TOY = Model("blue", MODEL)
SECONDS = 60

LONG = "word" * (FREE - 96)
"""One token of the toy's; by its length almost as many as are a replica's load. The toy takes no
longer text."""


def body(prompt: str, **parameters: Any) -> dict[str, Any]:
    """Return a request with the key that all have here: their first characters are the same."""
    return {"model": MODEL, "prompt": prompt, "max_tokens": 8, **parameters}


async def test_a_prompt_is_done_with_the_first_token(tmp_path: Path) -> None:
    engine = ScriptedEngine(gate=asyncio.Event())
    assert engine.gate is not None
    async with (
        serve(toy_gateway(tmp_path, engine)) as running,
        route({TOY: [address_of(running)]}) as router,
        httpx.AsyncClient(base_url=router.url, timeout=SECONDS) as client,
        client.stream("POST", "/v1/completions", json=body(LONG, stream=True)) as answer,
    ):
        events = answer.aiter_lines()
        await anext(events)
        assert router.count("mm_router_outstanding_tokens", model="blue/toy") == 8
        engine.gate.set()
        assert [line async for line in events][-2] == "data: [DONE]"
        await eventually_async(
            lambda: router.count("mm_router_outstanding_requests", model="blue/toy") == 0
        )
        assert router.count("mm_router_outstanding_tokens", model="blue/toy") == 0
