"""Writes the model repositories of an encoder's pod and of a server, as a commit's own code does.

    python bench/runtime/hops/site_of_hops.py FOLDER WIDTH ENCODER_PORT

The configurations are those of pods with a GPU. The serving plan that the models read says that
this machine has none, so features stay in host memory between them.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "tests"))

from mm_api.documents.serving_plan import EncoderPlan, ServingPlan  # noqa: E402 - tests are no package
from mm_runtime.repository.configs import multimodal_encoders, vision_encoder  # noqa: E402
from mm_runtime.repository.model_config import as_text  # noqa: E402
from mm_runtime.repository.values import values_of  # noqa: E402
from support.gateways import toy_manifest, toy_serving, write_processor  # noqa: E402

SIDE, ROWS = 336, 576
KEY = "key"
READER, ENSEMBLE = "language_model", "ensemble"

_MODEL = """import os
import sys

# Stubs do not read PYTHONPATH.
sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)

from traced import {} as made

TritonPythonModel = made{}
"""
_READER = """
name: "language_model" backend: "python" max_batch_size: 4
input { name: "OUT_PROMPT_EMBEDDING_TABLE" data_type: TYPE_BF16 dims: [ -1, -1 ] }
output { name: "ROWS" data_type: TYPE_INT32 dims: [ 1 ] }
instance_group { count: 1 kind: KIND_CPU }
"""
_ENSEMBLE = """
name: "ensemble" platform: "ensemble" max_batch_size: 4
input { name: "pixel_bytes" data_type: TYPE_UINT8 dims: [ -1, -1, -1, -1 ] }
output { name: "ROWS" data_type: TYPE_INT32 dims: [ 1 ] }
ensemble_scheduling {
  step {
    model_name: "multimodal_encoders" model_version: -1
    input_map { key: "pixel_bytes" value: "pixel_bytes" }
    output_map { key: "OUT_PROMPT_EMBEDDING_TABLE" value: "table" }
  }
  step {
    model_name: "language_model" model_version: -1
    input_map { key: "OUT_PROMPT_EMBEDDING_TABLE" value: "table" }
    output_map { key: "ROWS" value: "ROWS" }
  }
}
"""


def write_site(folder: Path, width: int, encoder_port: int) -> None:
    """Write an engine's manifest, its serving plan and both repositories."""
    engine = folder / "engine"
    write_processor(engine)
    size = {"size": {"shortest_edge": SIDE}, "crop_size": {"height": SIDE, "width": SIDE}}
    normalisation = {"image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28]}
    config = engine / "processor" / "preprocessor_config.json"
    config.write_text(json.dumps(size | normalisation))
    manifest = toy_manifest()
    plan = manifest.plan
    assert plan.facts.vision is not None
    assert plan.engine.vision is not None
    image = {"image_size": SIDE, "features_per_image": ROWS}
    facts = plan.facts.model_copy(
        update={
            "vision": plan.facts.vision.model_copy(update=image),
            "text": plan.facts.text.model_copy(update={"hidden_size": width}),
        }
    )
    spec = plan.engine.model_copy(
        update={
            "dtype": "bfloat16",
            "vision": plan.engine.vision.model_copy(update={**image, "engine": "Torch"}),
        }
    )
    plan = plan.model_copy(update={"facts": facts, "engine": spec})
    manifest = manifest.model_copy(update={"plan": plan})
    (engine / "manifest.json").write_text(manifest.to_json())
    serving = toy_serving()
    encoders = EncoderPlan(
        addresses=[f"127.0.0.1:{encoder_port}"],
        timeout_seconds=60,
        pools=serving.pools,
        key=KEY,
    )
    serving = serving.model_copy(update={"encoders": encoders})
    (folder / "serving.json").write_text(serving.to_json())
    on_gpu: ServingPlan = serving.model_copy(update={"device": "CUDA"})
    values = values_of(manifest, on_gpu, engine, folder / "serving.json", engine / "adapters")
    repositories = {
        "encoder": {
            vision_encoder.NAME: (
                as_text(vision_encoder.config(values)),
                _MODEL.format("encoder_model", "()"),
            )
        },
        "server": {
            multimodal_encoders.NAME: (
                as_text(multimodal_encoders.config(values)),
                _MODEL.format("server_model", "()"),
            ),
            READER: (_READER, _MODEL.format("Reader", "")),
            ENSEMBLE: (_ENSEMBLE, ""),
        },
    }
    for role, models in repositories.items():
        for name, (text, source) in models.items():
            model = folder / role / "repository" / name
            (model / "1").mkdir(parents=True)
            (model / "config.pbtxt").write_text(text)
            (model / "1" / ("model.py" if source else ".keep")).write_text(source)


if __name__ == "__main__":
    write_site(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
