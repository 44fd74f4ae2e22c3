"""Bytes of a `multipart/form-data` body -> its fields; the whole body is there already."""

from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from mm_runtime.gateway.errors import InvalidRequestError

MOST_FIELDS = 32
"""Of one form; OpenAI's own has a dozen."""


@dataclass
class _Reader:
    """Collects parts as the parser calls its methods."""

    fields: list[tuple[str, bytes]] = field(default_factory=list)
    _name: bytearray = field(default_factory=bytearray)
    _value: bytearray = field(default_factory=bytearray)
    _headers: dict[str, bytes] = field(default_factory=dict)
    _body: bytearray = field(default_factory=bytearray)

    def on_part_begin(self) -> None:
        """Forget the part before."""
        if len(self.fields) == MOST_FIELDS:
            raise InvalidRequestError(f"The form has more than {MOST_FIELDS} fields.")
        self._headers, self._body = {}, bytearray()

    def on_header_field(self, content: bytes, start: int, end: int) -> None:
        """Take some of a header's name."""
        self._name += content[start:end]

    def on_header_value(self, content: bytes, start: int, end: int) -> None:
        """Take some of a header's value."""
        self._value += content[start:end]

    def on_header_end(self) -> None:
        """Keep a header."""
        self._headers[self._name.decode("latin-1").lower()] = bytes(self._value)
        self._name, self._value = bytearray(), bytearray()

    def on_part_data(self, content: bytes, start: int, end: int) -> None:
        """Take some of a part's content."""
        self._body += content[start:end]

    def on_part_end(self) -> None:
        """Keep a part by its name."""
        _, options = parse_options_header(self._headers.get("content-disposition", b""))
        name = options.get(b"name")
        if name is None:
            raise InvalidRequestError("A part of the form has no name.")
        self.fields.append((name.decode("utf-8", errors="replace"), bytes(self._body)))


def read_form(body: bytes, content_type: str) -> dict[str, bytes]:
    """Return name -> content of a form's fields; of several with one name the last.

    Raises:
        InvalidRequestError: not such a form, or a damaged one.
    """
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise InvalidRequestError(
            "The body must be a form: Content-Type multipart/form-data with a boundary."
        )
    reader = _Reader()
    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": reader.on_part_begin,
                "on_header_field": reader.on_header_field,
                "on_header_value": reader.on_header_value,
                "on_header_end": reader.on_header_end,
                "on_part_data": reader.on_part_data,
                "on_part_end": reader.on_part_end,
            },
        )
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise InvalidRequestError(f"The form is damaged: {error}.") from None
    return dict(reader.fields)
