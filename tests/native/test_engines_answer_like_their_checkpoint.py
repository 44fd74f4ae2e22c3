"""Backend TensorRT: a pod whose answers are not its checkpoint's is never ready, and says where.

The real tritonserver and gateway, stand-ins for NVIDIA's parts. Answers were recorded at the build
by transformers on the processor; features pass through the engine's types on their way.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from mm_api.documents.evaluation import EVALUATION_NAME, Evaluation
from support import damaged_engines
from support.cases import cases
from support.damaged_engines import damaged
from support.model_configs import VERSIONS
from support.native.engines import NativeEngine, evaluated_engine
from support.native.image import NativeImage, make_image
from support.real_gateway import run_pair
from support.reports import difference_of, report_of
from support.tiny_llava import ADAPTERS

pytestmark = [pytest.mark.triton, pytest.mark.slow, pytest.mark.timeout(600)]


def weights(engine: Path) -> Path:
    return _pointing(engine / "llm" / "rank0.engine", "reference", damaged_engines.weights)


def adapter(engine: Path) -> Path:
    return _pointing(engine / "llm" / "rank0.engine", "reference", damaged_engines.adapter)


def projector(engine: Path) -> Path:
    (file,) = engine.glob("*/model.engine")
    return _pointing(file, "onnx", damaged_engines.projector)


def blind(engine: Path) -> Path:
    (file,) = engine.glob("*/model.engine")
    return _pointing(file, "onnx", _blinded)


def tokenizer(engine: Path) -> Path:
    return damaged_engines.tokenizer(engine)


def _blinded(engine: Path) -> Path:
    """Make the last matrix, which is the projector's, zero: what is left is its bias."""
    path = engine / "vision" / "model.onnx"
    model = onnx.load(path)
    *_, last = (one for one in model.graph.initializer if len(one.dims) == 2)
    last.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(last) * 0, last.name))
    onnx.save(model, path)
    return path


def _pointing(file: Path, name: str, damage: Callable[[Path], Path]) -> Path:
    """Let an engine's file name a damaged copy of what it named."""
    content = json.loads(file.read_text())
    named = Path(content[name])
    inside = named.parents[1] if named.is_file() else named
    copy = file.parents[2] / "damaged-reference"
    shutil.copytree(inside, copy)
    damage(copy)
    content[name] = str(copy / named.relative_to(inside))
    file.write_text(json.dumps(content))
    return file


VERSION = VERSIONS[-1]
BASE, ADAPTED = 6, 2
"""Prompts of the base model and of its one adapter."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> NativeImage:
    return make_image(tmp_path_factory.mktemp("image"), VERSION)


@pytest.fixture(scope="module")
def llava(tmp_path_factory: pytest.TempPathFactory) -> NativeEngine:
    return evaluated_engine("llava", tmp_path_factory.mktemp("evaluated"), VERSION, ADAPTERS)


def test_an_engine_like_its_checkpoint_is_ready(
    llava: NativeEngine, image: NativeImage, tmp_path: Path
) -> None:
    """Tokens are the checkpoint's, and log probabilities those of the entire vocabulary."""
    kept = Evaluation.from_json((llava.built.directory / EVALUATION_NAME).read_bytes())
    assert len(kept.prompts) == BASE + ADAPTED
    with run_pair(llava.built, tmp_path, program=image.program) as pair:
        report = report_of(pair.triton)
    assert (report.prompts, report.failed_prompts) == (BASE + ADAPTED, 0)
    assert report.tokens == report.agreed > len(kept.prompts)
    assert report.log_prob_distance is not None
    assert report.log_prob_distance < 0.1, (
        "normalised over top_k each would be 0, and none compared"
    )


@pytest.mark.parametrize("family", ["mllama", "qwen2-vl", "t5"])
def test_other_families_are_compared(family: str, tmp_path: Path) -> None:
    """Cross attention, rotations, and an encoder-decoder: each answers like its checkpoint."""
    engine = evaluated_engine(family, tmp_path, VERSION)
    image = make_image(tmp_path / "image", VERSION)
    with run_pair(engine.built, tmp_path, program=image.program) as pair:
        report = report_of(pair.triton)
    assert (report.failed_prompts, report.first_difference) == (0, None)
    assert report.log_prob_distance is not None
    assert report.tokens > report.prompts


def test_an_image_that_is_not_seen_is_a_difference(tmp_path: Path) -> None:
    """MLLAMA that reads the same of every image answers, and not like its checkpoint."""
    engine = evaluated_engine("mllama", tmp_path, VERSION)
    wrong = damaged(engine.built, tmp_path / "wrong", blind)
    image = make_image(tmp_path / "image", VERSION)
    with run_pair(wrong, tmp_path, program=image.program, awaited=False) as pair:
        difference_of(pair.triton, pair.url)


@cases(
    "damage adapter_only",
    {
        "weights": (weights, False),
        "tokenizer": (tokenizer, False),
        "projector": (projector, False),
        "adapter": (adapter, True),
    },
)
def test_an_engine_unlike_its_checkpoint_is_never_ready(
    llava: NativeEngine,
    image: NativeImage,
    tmp_path: Path,
    damage: Callable[[Path], Path],
    *,
    adapter_only: bool,
) -> None:
    """Requests are answered, and the pod stays unready with prompt, token and distance."""
    wrong = damaged(llava.built, tmp_path, damage)
    with run_pair(wrong, tmp_path, program=image.program, awaited=False) as pair:
        report, first = difference_of(pair.triton, pair.url)
    assert 1 <= report.failed_prompts <= (ADAPTED if adapter_only else BASE + ADAPTED)
    assert (first.adapter is not None) == adapter_only
