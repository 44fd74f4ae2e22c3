"""A field that is logged is in the line, whatever its name and value."""

import io
import json
import logging

import pytest

from mm_api.json_logs import JsonFormatter
from mm_operator.telemetry.logs import KeyedFormatter

FIELDS = {"status": 200, "images": 0, "seconds": 0.0, "first": None, "key": "", "cut": False}


@pytest.mark.parametrize("formatter", [JsonFormatter(), KeyedFormatter()], ids=["all", "operator"])
def test_fields_are_in_the_line(formatter: logging.Formatter) -> None:
    output = io.StringIO()
    handler = logging.StreamHandler(output)
    handler.setFormatter(formatter)
    logger = logging.Logger("mm_test")  # noqa: LOG001 - no other test sees its handler
    logger.addHandler(handler)
    logger.info("it is", extra={"fields": FIELDS, "color_message": "it %s"})
    line = json.loads(output.getvalue())
    assert {name: line[name] for name in FIELDS} == FIELDS
    assert set(line) == {*FIELDS, "time", "level", "logger", "message"}
