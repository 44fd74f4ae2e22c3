"""A server that has answered and is stopped: each of its models' processes ends in good order."""

import pytest

from support.ensemble import Ensemble
from support.image_host import ImageHost
from support.served import start_serving
from support.tiny_llava import BuiltEngine

pytestmark = [pytest.mark.slow, pytest.mark.triton, pytest.mark.timeout(300)]

MODELS = ("ensemble", "tensorrt_llm_bls")
CRASHED = "Fatal Python error"
"""What Python's faulthandler writes, on in every model."""


def test_no_process_crashes_when_the_server_stops(
    built_engine: BuiltEngine, host: ImageHost
) -> None:
    """Entire answers, streams and refusals were there; exit code 0, and no crash in the log."""
    with start_serving(built_engine.manifest, built_engine.serving) as served:
        served.wait_until_ready()
        for model in MODELS:
            with Ensemble(served.grpc_url, model) as client:
                url = host.url("red-square.png")
                client.query("What is in the image?", image_url_input=url, max_tokens=4)
                client.query("Hello!", stream=True, max_tokens=4)
        served.terminate()
        assert served.wait() == 0, served.log
        assert CRASHED not in served.log, served.log
