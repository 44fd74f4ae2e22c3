"""What the grammar library of TensorRT-LLM refuses is the client's error, in its words."""

import pytest

from mm_runtime.backends.triton_server.errors import reported_error
from mm_runtime.gateway.errors import EngineFailedError, InvalidRequestError

MESSAGES = {
    "[02:02:53] /project/cpp/regex_converter.cc:75: Regex parsing error at position 3: Lookahead "
    "is not supported yet.\n": "Regex parsing error at position 3: Lookahead is not supported yet.",
    '[02:02:53] /project/cpp/json_schema_converter.cc:902: Unsupported type "shape"': (
        'Unsupported type "shape"'
    ),
}
"""Of xgrammar 0.1.25."""


@pytest.mark.parametrize("message", MESSAGES)
def test_the_library_s_words_are_passed_on(message: str) -> None:
    """Without the time and the place in its sources; the parameter is named."""
    error = reported_error("ensemble", message, "structured_outputs.regex")

    assert isinstance(error, InvalidRequestError)
    assert error.param == "structured_outputs.regex"
    assert f"refused the form of the answer: {MESSAGES[message]}" in str(error)
    assert "02:02:53" not in str(error)


def test_other_words_are_no_refusal() -> None:
    """What names another place in sources is the server's fault."""
    assert isinstance(reported_error("ensemble", "executor.cc:75: broken"), EngineFailedError)
