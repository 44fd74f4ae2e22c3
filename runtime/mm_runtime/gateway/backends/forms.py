"""PURE: the form that a request wants of its answer, as engines name it."""

import json
import re

from mm_runtime.gateway.api.openai import JsonFormat, SampledRequest, SchemaFormat
from mm_runtime.gateway.backends.engine import Form
from mm_runtime.gateway.errors import InvalidRequestError

MAX_SCHEMA_BYTES = 64 * 1024
"""Of a schema. Real ones have a few thousand."""


def form_of(request: SampledRequest) -> Form | None:
    """Return the form; None: any text.

    Raises:
        InvalidRequestError: the schema is too large.
    """
    if request.guided_regex is not None:
        return Form("regex", request.guided_regex)
    if request.guided_choice is not None:
        return Form("regex", "|".join(map(re.escape, request.guided_choice)))
    match request.response_format:
        case JsonFormat():
            return Form("json")
        case SchemaFormat():
            schema = request.response_format.json_schema.json_schema
            if schema is None:
                return Form("json")
            text = json.dumps(schema)
            if len(text) > MAX_SCHEMA_BYTES:
                raise InvalidRequestError(
                    f"The schema has {len(text)} bytes, at most {MAX_SCHEMA_BYTES} are read.",
                    param="response_format.json_schema.schema",
                )
            return Form("json_schema", text)
        case _:
            return None
