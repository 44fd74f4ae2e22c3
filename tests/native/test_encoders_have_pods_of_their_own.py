"""Backend TensorRT with encoders in pods of their own: features of each type of engine arrive.

Both real tritonservers, stand-ins for NVIDIA's parts.
"""

from pathlib import Path

import numpy as np
import pytest

from support.encoder_pairs import counted, run_encoder_pair
from support.ensemble import Ensemble
from support.eventually import eventually
from support.families.expected import noise_image
from support.families.pipeline import Pipeline
from support.images import data_url, encode
from support.model_configs import VERSIONS
from support.native.engines import native_engine_of
from support.native.expected import ANSWER, answer_ids
from support.native.image import make_image

pytestmark = [pytest.mark.triton, pytest.mark.slow, pytest.mark.timeout(600)]

VERSION = VERSIONS[-1]
FAMILY = "llava"
QUESTION = "USER: <image>\nwhat is in the image ? ASSISTANT:"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_answers_are_of_the_encoders_features(dtype: str, tmp_path: Path) -> None:
    image = make_image(tmp_path / "image", VERSION)
    engine = native_engine_of(FAMILY, tmp_path, VERSION, {"dtype": dtype})
    assert engine.plan.engine.dtype == dtype
    pipeline = Pipeline.load(engine.reference)
    url = data_url(encode(noise_image(100, 61, seed=1)))
    tensors = {"IMAGE_URL": np.array([[url.encode()]], dtype=np.object_)}
    expected = answer_ids(pipeline, QUESTION, dtype, **tensors)
    pipeline.loaded.engine.stop()

    pods = tmp_path / "pods"
    pods.mkdir()
    with (
        run_encoder_pair(engine.built, pods, image.program) as pair,
        Ensemble(pair.server.grpc_url) as client,
    ):
        answer = client.query(QUESTION, image_url_input=url, max_tokens=ANSWER)
        eventually(lambda: bool(counted(pair.server, "mm_encoder_requests_total")))
        encoded = counted(pair.server, "mm_encoder_requests_total")
    assert answer.text == pipeline.preprocessor.codec.decode(expected)
    assert encoded == {"encoders": 1}
