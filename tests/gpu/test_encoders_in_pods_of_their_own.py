"""An encoder in a pod of its own and the server that sends it images, each on the GPU.

Run with `pytest -m gpu tests/gpu`, where Triton is installed.
"""

import base64
from pathlib import Path

import pytest

from support.build_plans import serving_plan
from support.encoder_pairs import counted, run_encoder_pair
from support.ensemble import Ensemble
from support.eventually import eventually
from support.families.pipeline import build
from support.tiny_llava import CHECKPOINT, BuiltEngine, samples

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.triton,
    # Older torch warns when it reads an exported program and arrays that it does not write to.
    pytest.mark.filterwarnings("ignore:The given (buffer|NumPy array) is not writable:UserWarning"),
]


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
