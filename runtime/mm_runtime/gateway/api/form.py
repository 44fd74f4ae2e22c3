"""Bytes of a `multipart/form-data` body -> its fields; the complete body is there already."""

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field, File, FormParser, parse_options_header

from mm_edge.errors import InvalidRequestError

MOST_FIELDS = 32
"""In one form; OpenAI's own has a dozen."""


def read_form(body: bytes, content_type: str) -> dict[str, list[bytes]]:
    """Return name -> contents of a form's fields, in order; InvalidRequestError: it is none."""
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise InvalidRequestError(
            "The body must be a form: Content-Type multipart/form-data with a boundary."
        )
    parts: list[tuple[bytes | None, bytes]] = []

    def keep(name: bytes | None, content: bytes) -> None:
        if len(parts) == MOST_FIELDS:
            raise InvalidRequestError(f"The form has more than {MOST_FIELDS} fields.")
        parts.append((name, content))

    def keep_field(field: Field) -> None:
        keep(field.field_name, field.value or b"")

    def keep_file(file: File) -> None:
        file.file_object.seek(0)
        keep(file.field_name, file.file_object.read())

    # A file larger than this would be written to disk; none is larger than the body.
    in_memory = {"MAX_MEMORY_FILE_SIZE": len(body)}
    try:
        parser = FormParser(
            kind.decode(), keep_field, keep_file, boundary=boundary, config=in_memory
        )
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise InvalidRequestError(f"The form is damaged: {error}.") from None
    fields: dict[str, list[bytes]] = {}
    for name, content in parts:
        fields.setdefault((name or b"").decode("utf-8", errors="replace"), []).append(content)
    return fields
