"""Every file of Triton's repository where TensorRT-LLM on PyTorch is Triton's model.

Upstream's model answers clients where the image has the one of NVIDIA's guide, with images; else
ours does, which has the same tensors. The supervisor reads files of the image.
"""

import json
from pathlib import Path

from mm_runtime.repository.configs import llmapi
from mm_runtime.repository.model_config import as_text

UPSTREAM = ("triton_backend/all_models", "all_models")
"""Below TensorRT-LLM's folder: in its release images, and in Triton's."""


def layout(options: str, serving_plan: Path, port: int, root: Path) -> dict[str, str]:
    """Return path -> content of the repository.

    `options`: fields of upstream's LlmArgs, and its `triton_config`. `serving_plan`: as the model
    reaches it. `port`: of the gateway's door. `root`: TensorRT-LLM's folder in this image.
    """
    models = Path(__file__).parent / "models"
    files = _upstreams(root) or {
        "config.pbtxt": as_text(llmapi.of_llm_api()),
        "1/served.py": (models / "llm_api_served.py").read_text(),
    }
    for name, value in (("serving_plan", serving_plan), ("port", port)):
        text = json.dumps(str(value))
        row = f'parameters {{ key: "{name}" value {{ string_value: {text} }} }}\n'
        files["config.pbtxt"] += f"\n{row}"
    files |= {"1/model.py": (models / "llm_api.py").read_text(), "1/model.yaml": options}
    return {f"tensorrt_llm/{name}": content for name, content in files.items()}


def _upstreams(root: Path) -> dict[str, str]:
    """Return the files of upstream's model; none where it has no method that fetches images."""
    for folder in (root / one / "llmapi" / "tensorrt_llm" for one in UPSTREAM):
        model = folder / "1" / "model.py"
        if model.is_file() and "def _build_multimodal_prompt" in (served := model.read_text()):
            helpers = (folder / "1" / "helpers.py").read_text()
            config = (folder / "config.pbtxt").read_text()
            return {"config.pbtxt": config, "1/served.py": served, "1/helpers.py": helpers}
    return {}
