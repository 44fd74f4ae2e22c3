"""Every family answers on a GPU as on the processor: towers, language models, beams, adapters off.

Small random checkpoints in float32. Run with `pytest -m gpu tests/gpu`; `make test` leaves it out.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from mm_runtime.reference_engine.load import load_engine
from mm_runtime.serving.device import open_device
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.encoding import encode_requests
from mm_runtime.serving.encode.vision.load import load_encoder
from mm_runtime.serving.generate.request import Request
from support.collecting_sink import CollectingSink, answers_of
from support.families.expected import KINDS, noise_image
from support.families.images import write
from support.families.pipeline import Pipeline, build

pytestmark = [
    pytest.mark.gpu,
    # Older torch warns when it reads an exported program and arrays that it does not write to.
    pytest.mark.filterwarnings("ignore:The given (buffer|NumPy array) is not writable:UserWarning"),
    pytest.mark.filterwarnings("ignore:`hidden_state` is deprecated:FutureWarning"),
]

QUESTION = "what is in the image ?"
SIZES = [(100, 61), (28, 28), (37, 150)]


@pytest.fixture(scope="module", params=sorted(KINDS))
def pipeline(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pipeline]:
    """One family's engine on the processor, its vision half as torch exports it."""
    folder = tmp_path_factory.mktemp("family")
    checkpoint = folder / "checkpoint"
    write(request.param, checkpoint)
    made = Pipeline.load(build(checkpoint, folder / "store", vision="Torch"))
    yield made
    made.loaded.engine.stop()


def on_gpu(directory: EngineDirectory, requests: list[Request]) -> list[list[int]]:
    loaded = load_engine(
        directory, max_queue_size=16, cancellation_check_seconds=1.0, device=open_device("CUDA")
    )
    loaded.engine.start()
    try:
        return answers_of(loaded.engine, requests)
    finally:
        loaded.engine.stop()


def test_answers_are_equal(pipeline: Pipeline) -> None:
    """Three images of different shapes: decoded together on the GPU, alone on the processor."""
    requests = [
        pipeline.request(QUESTION, IMAGE_BYTES=np.asarray(noise_image(*size, seed=1))[None, None])
        for size in SIZES
    ]
    wanted = []
    for request in requests:
        sink = CollectingSink()
        pipeline.loaded.engine.submit(request, sink)
        wanted.append(sink.wait())

    assert on_gpu(pipeline.directory, requests) == wanted


def test_features_are_equal(pipeline: Pipeline) -> None:
    """The exported tower on the GPU gives the processor's features, within float32's rounding."""
    vision = pipeline.directory.vision
    assert vision is not None
    prepared = pipeline.prepare(
        QUESTION, IMAGE_BYTES=np.asarray(noise_image(100, 61, seed=1))[None, None]
    )
    inputs = {name.lower(): value for name, value in prepared.items()}
    inputs |= {"max_tokens": prepared["REQUEST_OUTPUT_LEN"]}
    here, there = (
        encode_requests(
            load_encoder(pipeline.directory, vision, device=device), [inputs], np.float32
        )[0]
        for device in ("CPU", "CUDA")
    )
    assert isinstance(here, dict)
    assert isinstance(there, dict)

    assert here.keys() == there.keys()
    for name, values in here.items():
        assert np.allclose(values, there[name], atol=1e-4), name
