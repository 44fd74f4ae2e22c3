"""Whatever a family's features are, an encoder in a pod of its own sends those of one's own."""

from pathlib import Path

import numpy as np
import pytest

from mm_api.documents.serving_plan import EncoderPlan
from mm_runtime.repository.configs.multimodal_encoders import INPUTS
from mm_runtime.serving.encode.disaggregated.client import EncoderClient
from mm_runtime.serving.encode.disaggregated.identity import vision_identity
from mm_runtime.serving.encode.disaggregated.responses import ExpectedFeatures
from mm_runtime.serving.encode.encoding import encode_requests
from mm_runtime.serving.encode.vision.load import load_encoder
from mm_runtime.serving.preprocess.preprocessing import Preprocessor
from support.build_plans import serving_plan
from support.encoder_pairs import TIMEOUT_SECONDS
from support.families import images
from support.families.expected import noise_image
from support.families.pipeline import build
from support.served import start_serving

pytestmark = [pytest.mark.triton, pytest.mark.slow, pytest.mark.timeout(600)]

NAMES = {one.name for one in INPUTS}


@pytest.mark.parametrize("family", sorted(images.CASES))
def test_features_travel(family: str, tmp_path: Path) -> None:
    directory = build(images.write(family, tmp_path / "checkpoint"), tmp_path / "store")
    assert directory.vision is not None
    plan = serving_plan(directory.manifest.fingerprint)
    encoders = EncoderPlan(addresses=["127.0.0.1:1"], timeout_seconds=1, pools=plan.pools)
    serving = tmp_path / "serving.json"
    serving.write_text(plan.model_copy(update={"encoders": encoders}).to_json())
    requested = {
        "QUERY": np.array([[b"what is in the image ?"]], dtype=np.object_),
        "REQUEST_OUTPUT_LEN": np.array([[16]], dtype=np.int32),
        "IMAGE_BYTES": np.asarray(noise_image(100, 61, seed=1))[None, None],
    }
    prepared = Preprocessor.load(directory, plan).prepare(requested)
    inputs = {name.lower(): value for name, value in prepared.items() if name.lower() in NAMES}
    inputs["max_tokens"] = prepared["REQUEST_OUTPUT_LEN"]
    own = load_encoder(directory, directory.vision)
    expected = encode_requests(own, [inputs], np.float32)[0]
    assert isinstance(expected, dict)
    manifest = directory.root / "manifest.json"
    with start_serving(manifest, serving, "--role", "encoder") as encoder:
        encoder.wait_until_ready()
        client = EncoderClient(
            lambda: [encoder.grpc_url],
            identity=vision_identity(directory.manifest),
            expected_features=ExpectedFeatures.of(directory.facts, directory.vision, np.float32),
            timeout_seconds=TIMEOUT_SECONDS,
        )
        found = client.encode(inputs)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5, err_msg=name)
