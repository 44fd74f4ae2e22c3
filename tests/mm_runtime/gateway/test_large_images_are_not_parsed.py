"""Large images are taken out of a body before it is parsed: the request is the one it was."""

import base64
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from mm_runtime.gateway.api import large_images
from mm_runtime.gateway.api.large_images import take_out
from mm_runtime.gateway.api.messages import ImagePart, TextPart
from mm_runtime.gateway.api.openai import ChatRequest
from mm_runtime.gateway.api.parsing import parse_chat, parse_response
from mm_runtime.gateway.errors import InvalidRequestError
from mm_runtime.images.data_urls import DecodedUrl, decode_data_url
from mm_runtime.images.media import BadImageError
from support.cases import cases
from support.images import data_url

JSON = "application/json"
FILES = [random.Random(seed).randbytes(60_000 + seed) for seed in range(3)]  # noqa: S311 - no pattern
LARGE = [data_url(one, "image/jpeg") for one in FILES]
SMALL = data_url(b"a small one")
MOST = 1 << 20


def _image(url: str, **more: object) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def _body(*parts: dict[str, object], **more: object) -> bytes:
    return json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": parts}], **more}
    ).encode()


def _files(request: ChatRequest) -> list[bytes]:
    parts = (part for message in request.messages for part in message.content or ())
    urls = (part.image_url.url for part in parts if isinstance(part, ImagePart))
    return [decode_data_url(url, max_bytes=MOST) for url in urls]


def _plainly(monkeypatch: pytest.MonkeyPatch, parse: Callable[[], Any]) -> Any:
    with monkeypatch.context() as patched:
        patched.setattr(large_images, "_MOST_LOOKED_AT", 0)
        return parse()


def test_the_request_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each image at its place, also twice the same, beside small ones and other fields."""
    parts = [
        _image(LARGE[0], detail="low"),
        _text('what, "data:image/png;base64," is it'),
        _image(SMALL),
        _image(LARGE[1]),
        _image(LARGE[0]),
    ]
    body = _body(*parts, max_tokens=3)
    assert len(take_out(body).body) < 2000

    found = parse_chat(body, JSON)

    plain = _plainly(monkeypatch, lambda: parse_chat(body, JSON))
    assert _files(found) == _files(plain) == [FILES[0], b"a small one", FILES[1], FILES[0]]
    assert [isinstance(part.image_url.url, DecodedUrl) for part in _images(found)] == [
        *(True, False, True, True)
    ]
    assert not any(isinstance(part.image_url.url, DecodedUrl) for part in _images(plain))
    assert _shown(found) == _shown(plain)


def _images(request: ChatRequest) -> list[ImagePart]:
    return [part for part in request.messages[0].content or () if isinstance(part, ImagePart)]


def _shown(request: ChatRequest) -> dict[str, Any]:
    """Return all fields but the URLs of images."""
    found = request.model_dump()
    for message in found["messages"]:
        for part in message["content"]:
            part.get("image_url", {}).pop("url", None)
    return found


def test_images_of_responses() -> None:
    """The same of OpenAI's newer words."""
    parts = [{"type": "input_image", "image_url": LARGE[2]}, {"type": "input_text", "text": "what"}]
    body = json.dumps({"model": "m", "input": [{"role": "user", "content": parts}]}).encode()
    found = parse_response(body, JSON)
    assert _files(found) == [FILES[2]]
    assert isinstance(_images(found)[0].image_url.url, DecodedUrl)


def test_a_text_stays_a_text() -> None:
    """A URL that a user writes about, in quotes, beside an image of the same bytes."""
    for text in (f'"{LARGE[0]}', f'"{LARGE[0]}"', f'\\"{LARGE[0]}", "url": "{LARGE[1]}"'):
        request = parse_chat(_body(_text(text), _image(LARGE[0])), JSON)
        (said,) = (part for part in request.messages[0].content or () if isinstance(part, TextPart))
        assert said.text == text
        assert _files(request) == [FILES[0]]


@cases(
    "wrong",
    {
        "padding": lambda url: f"{url.rstrip('=')}====",
        "letters": lambda url: url.replace("A", "*"),
        "no base64": lambda url: url.replace(";base64", ""),
    },
)
def test_wrong_urls_are_refused_as_before(
    wrong: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = _body(_image(wrong(data_url(FILES[1] + b"..", "image/jpeg"))))
    said = []
    for parse in (parse_chat, lambda *one: _plainly(monkeypatch, lambda: parse_chat(*one))):
        with pytest.raises(BadImageError) as refused:
            _files(parse(body, JSON))
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_other_ways_of_base64_are_taken() -> None:
    """Lines as mail programs write them, and no padding: by the parser's way."""
    content = FILES[0] + b"."
    assert len(content) % 3
    for encoded in (base64.encodebytes(content), base64.b64encode(content).rstrip(b"=")):
        body = _body(_image(f"data:image/png;base64,{encoded.decode()}"))
        assert not take_out(body).images
        assert _files(parse_chat(body, JSON)) == [content]


def test_a_limit_of_bytes() -> None:
    (url,) = (part.image_url.url for part in _images(parse_chat(_body(_image(LARGE[1])), JSON)))
    most = len(FILES[1])
    assert decode_data_url(url, max_bytes=most) == FILES[1]
    with pytest.raises(BadImageError, match=f"{most} bytes, more than the limit of {most - 1}"):
        decode_data_url(url, max_bytes=most - 1)


@cases(
    "change",
    {
        "cut": lambda body: body[:-1],
        "role": lambda body: body.replace(b'"user"', b'"someone"'),
        "field": lambda body: body.replace(b'"detail"', b'"color"'),
        "two texts": lambda body: body.replace(b'"url": ', b'"url": "x"'),
        "a key": lambda body: body.replace(b'"url": ', b'"url": 1, '),
    },
)
def test_errors_are_those_of_the_body(
    change: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Places and names are those that the client has sent."""
    body = change(_body(_image(LARGE[0], detail="low"), _text("what")))
    said = []
    for parse in (parse_chat, lambda *one: _plainly(monkeypatch, lambda: parse_chat(*one))):
        with pytest.raises(InvalidRequestError) as refused:
            parse(body, JSON)
        said.append((str(refused.value), refused.value.param))
    assert said[0] == said[1]


def test_looks_are_bounded() -> None:
    """Beyond so many URLs an image is left to the parser."""
    many = [_image("data:image/png;base64,AAAA")] * large_images._MOST_LOOKED_AT
    assert not take_out(_body(*many, _image(LARGE[0]))).images
    assert take_out(_body(*many[1:], _image(LARGE[0]))).images
