"""Of a body only its model and its key are read; it is passed on as it came."""

import json

import pytest

from mm_edge.errors import InvalidRequestError
from mm_router.reading import read_form, read_json
from support.cases import cases

FORM = "multipart/form-data; boundary=frontier"


def form(*fields: tuple[str, bytes]) -> bytes:
    parts = [
        b'--frontier\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
        % (name.encode(), content)
        for name, content in fields
    ]
    return b"".join(parts) + b"--frontier--\r\n"


def test_another_name_is_the_only_change_of_json() -> None:
    """Text of any script and numbers stay what they were."""
    body = {
        "model": "blue/llava",
        "messages": [{"role": "user", "content": "Grüße 中 \u0000"}],
        "seed": 2**63,
        "top_p": 0.1,
    }

    reading = read_json(json.dumps(body).encode(), "application/json")

    assert reading.model == "blue/llava"
    assert json.loads(reading.named("llava")) == {**body, "model": "llava"}


def test_a_byte_order_mark_is_passed_over() -> None:
    """The gateway behind reads the body without it, too."""
    assert read_json(b'\xef\xbb\xbf{"model": "llava"}', "application/json").model == "llava"


def test_another_name_is_the_only_change_of_a_form() -> None:
    """Bytes of files stay, also those that look like a boundary or like the field."""
    audio = b'RIFF\r\n--frontie\r\nname="model"\r\n\r\nno\r\n\x00\xff'
    body = form(("file", audio), ("model", b"blue/whisper"), ("language", b"de"))

    reading = read_form(body, FORM)

    assert reading.model == "blue/whisper"
    assert reading.named("whisper") == form(
        ("file", audio), ("model", b"whisper"), ("language", b"de")
    )


@cases(
    "body message",
    {
        "empty": (b"", "The body is not JSON"),
        "cut": (b"{", "The body is not JSON"),
        "deep": (b"[" * 2000, "The body is not JSON"),
        "deep-message": (
            b'{"model": "a", "messages": [{"content": ' + b"[" * 300 + b"]" * 300 + b"}]}",
            "The body is nested too deeply",
        ),
        "no-utf8": (b"\xff{}", "The body is not JSON"),
        "list": (b"[]", "The body must be a JSON object."),
        "no-model": (b"{}", "`model` is missing"),
        "number": (b'{"model": 7}', "`model` is missing"),
        "elements": (b"[" + b"{}," * 100_000 + b"{}]", "The body has more than"),
    },
)
def test_bodies_without_a_way_are_refused(body: bytes, message: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read_json(body, "")

    assert refused.value.message.startswith(message)


@cases(
    "body kind message",
    {
        "json": (form(), "application/json", "The body must be a form"),
        "no-boundary": (form(), "multipart/form-data", "The body must be a form"),
        "no-model": (form(("file", b"a")), FORM, "`model` is missing"),
        "empty-model": (form(("model", b"")), FORM, "`model` is missing"),
        "no-utf8": (form(("model", b"\xff")), FORM, "`model` is not UTF-8"),
        "damaged": (b"something else", FORM, "The form is damaged"),
        "many": (form(*[("a", b"b")] * 40), FORM, "The form has more than 32 fields"),
    },
)
def test_forms_without_a_way_are_refused(body: bytes, kind: str, message: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read_form(body, kind)

    assert refused.value.message.startswith(message)
