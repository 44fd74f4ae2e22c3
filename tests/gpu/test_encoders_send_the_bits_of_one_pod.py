"""What an encoder's pod sends to another server is what one server hands on inside, bit for bit.

Run with `pytest -m gpu tests/gpu`, where Triton is installed.
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mm_api.documents.engine_manifest import MANIFEST_NAME
from mm_runtime.serving.device import open_device
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.disaggregated.client import EncoderClient
from mm_runtime.serving.encode.disaggregated.identity import vision_identity
from mm_runtime.serving.encode.disaggregated.responses import ExpectedFeatures
from mm_runtime.serving.encode.encoding import encode_requests
from mm_runtime.serving.encode.hand_over import HandOver
from mm_runtime.serving.encode.vision.load import load_encoder
from mm_runtime.serving.encode.vision.pixel_bytes import normalisation_of
from mm_runtime.serving.tensors import BFLOAT16_BITS
from support.build_plans import serving_plan
from support.encoder_pairs import KEY, TIMEOUT_SECONDS, counted, disaggregated, run_encoder_pair
from support.ensemble import Ensemble
from support.eventually import eventually
from support.families.pipeline import build
from support.served import start_serving
from support.tiny_llava import CHECKPOINT, IMAGE_SIDE, BuiltEngine, samples

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.triton,
    # Older torch warns when it reads an exported program and arrays that it does not write to.
    pytest.mark.filterwarnings("ignore:The given (buffer|NumPy array) is not writable:UserWarning"),
]

DEVICE, DTYPE = "CUDA", "bfloat16"
TABLE = "OUT_PROMPT_EMBEDDING_TABLE"


@pytest.fixture
def directory(tmp_path: Path) -> EngineDirectory:
    """The tiny model, as one whose language model computes in bfloat16."""
    built = build(CHECKPOINT, tmp_path / "store", vision="Torch")
    plan = built.manifest.plan
    engine = plan.engine.model_copy(update={"dtype": DTYPE})
    manifest = built.manifest.model_copy(
        update={"plan": plan.model_copy(update={"engine": engine})}
    )
    (built.root / MANIFEST_NAME).write_text(manifest.to_json())
    return EngineDirectory.open(built.root)


@pytest.fixture
def client(directory: EngineDirectory, tmp_path: Path) -> Iterator[EncoderClient]:
    assert directory.vision is not None
    plan = serving_plan(directory.manifest.fingerprint, device=DEVICE)
    pools = plan.pools.model_copy(update={"cuda_bytes": 64 << 20, "pinned_bytes": 0})
    path = tmp_path / "plan.json"
    path.write_text(plan.model_copy(update={"pools": pools}).to_json())
    engine = BuiltEngine(directory.root, path)
    serving = disaggregated(engine, tmp_path, "127.0.0.1:1")
    with start_serving(engine.manifest, serving, "--role", "encoder") as encoder:
        encoder.wait_until_ready()
        yield EncoderClient(
            lambda: [encoder.grpc_url],
            identity=vision_identity(directory.manifest),
            expected_features=ExpectedFeatures.of(directory.facts, directory.vision, np.float32),
            timeout_seconds=TIMEOUT_SECONDS,
            key=KEY,
        )


def test_features_have_the_bits_of_one_pod(
    directory: EngineDirectory, client: EncoderClient
) -> None:
    assert directory.vision is not None
    images = np.random.default_rng(1).integers(
        0, 256, (1, 2, IMAGE_SIDE, IMAGE_SIDE, 3), dtype=np.uint8
    )
    normalisation = normalisation_of(directory)
    assert normalisation is not None
    values = normalisation.of_images(images[0])[np.newaxis]
    own = load_encoder(directory, directory.vision, device=DEVICE, keeps=True)
    place = HandOver(open_device(DEVICE), DTYPE, announced=False).place
    for inputs in ({"pixel_bytes": images}, {"pixel_values": values}):
        made: Any = encode_requests(own, [inputs], np.float32)[0]
        expected = place(made)[TABLE].cpu().view(torch.int16).numpy()
        for _ in range(2):
            found = client.encode(inputs)[TABLE]
            assert found.dtype == BFLOAT16_BITS
            assert np.array_equal(found.view(np.int16), expected)


def test_answers_are_those_of_one_pod(tmp_path: Path) -> None:
    """Every sample is answered right, by features of the encoder alone."""
    directory = build(CHECKPOINT, tmp_path / "store", vision="Torch")
    plan = serving_plan(directory.manifest.fingerprint, device="CUDA")
    pools = plan.pools.model_copy(update={"cuda_bytes": 64 << 20, "pinned_bytes": 0})
    path = tmp_path / "plan.json"
    path.write_text(plan.model_copy(update={"pools": pools}).to_json())
    pods = tmp_path / "pods"
    pods.mkdir()

    with (
        run_encoder_pair(BuiltEngine(directory.root, path), pods) as pair,
        Ensemble(pair.server.grpc_url) as client,
    ):
        answers = [
            client.query(
                one.question,
                image_url_input="data:image/png;base64,"
                + base64.b64encode(one.image.read_bytes()).decode(),
            ).text
            for one in samples()
        ]
        assert answers == [one.answer for one in samples()]
        eventually(
            lambda: counted(pair.server, "mm_encoder_requests_total") == {"encoders": len(answers)}
        )
