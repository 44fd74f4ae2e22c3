"""The form of a transcription becomes a request, or an error that names the field."""

import pytest

from mm_edge.errors import InvalidRequestError
from mm_runtime.gateway.api.parsing import MOST_FIELDS, parse_transcription
from support.cases import cases

TYPE = "multipart/form-data; boundary=line"


def _form(*fields: tuple[str, bytes], end: bytes = b"--line--\r\n") -> bytes:
    parts = [
        b'--line\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), one)
        for name, one in fields
    ]
    return b"".join(parts) + end


MODEL, FILE = ("model", b"tiny"), ("file", b"\x00\r\n--lin\xff\r\nsound")


def test_fields() -> None:
    """A file keeps every byte, also those that look like the form's own lines."""
    body = _form(MODEL, FILE, ("temperature", b"0.5"), ("stream", b"true"), ("language", b"de"))
    found = parse_transcription(body, TYPE)
    assert (found.file, found.temperature, found.stream, found.language) == (
        b"\x00\r\n--lin\xff\r\nsound",
        0.5,
        True,
        "de",
    )


def test_of_two_fields_the_last_counts() -> None:
    assert parse_transcription(_form(MODEL, FILE, ("model", b"other")), TYPE).model == "other"


@cases(
    "body kind words",
    {
        "json": (b"{}", "application/json", "must be a form"),
        "no-boundary": (_form(MODEL, FILE), "multipart/form-data", "must be a form"),
        "no-form": (b"no form", TYPE, "form is damaged"),
        "no-file": (_form(MODEL), TYPE, "`file` is missing"),
        "no-model": (_form(FILE), TYPE, "`model` is missing"),
        "unknown": (_form(MODEL, FILE, ("tone", b"x")), TYPE, "`tone` is unknown"),
        "no-number": (_form(MODEL, FILE, ("temperature", b"hot")), TYPE, "`temperature` is"),
        "not-served": (
            _form(MODEL, FILE, ("include[]", b"logprobs")),
            TYPE,
            "`include` is not served",
        ),
        "many": (_form(*[("model", b"a")] * (MOST_FIELDS + 1)), TYPE, "more than 32 fields"),
        "nameless": (
            b"--line\r\nContent-Type: text/plain\r\n\r\nx\r\n--line--\r\n",
            TYPE,
            "Field name not found",
        ),
    },
)
def test_refused(body: bytes, kind: str, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        parse_transcription(body, kind)
