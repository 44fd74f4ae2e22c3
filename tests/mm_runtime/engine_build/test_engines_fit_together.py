"""Engines that were each built as reported may still not fit together, or not the checkpoint."""

import json
from pathlib import Path
from typing import Any

import pytest

from mm_api.documents.engine_manifest import GpuIdentity
from mm_runtime.engine_build.commands.step import StepContext
from mm_runtime.engine_build.commands.verify_engines import verify_engines
from mm_runtime.engine_build.receipt import ToolReport
from mm_runtime.engine_build.tree import built_folder
from mm_runtime.errors import VerificationFailedError
from support.cases import cases
from support.trtllm_sites import TrtllmSite, trtllm_site
from support.trtllm_tools.install import Tools

pytestmark = pytest.mark.usefixtures("quick_builds")

VERSION = "0.20.0"
WIDTH = {"t5": 512, "llava": 4096}


def built(folder: Path, family: str) -> tuple[TrtllmSite, dict[str, dict[str, Any]]]:
    site = trtllm_site(folder, Tools(folder / "tools", VERSION), family)
    limits = site.plan.engine.limits
    shared = {
        "max_batch_size": limits.max_batch_size,
        "max_beam_width": limits.max_beam_width,
        "max_prompt_embedding_table_size": limits.max_multimodal_len,
        "max_input_len": 1024,
        "max_encoder_input_len": 1024,
    }
    pretrained = {"hidden_size": WIDTH[family], "dtype": "float16", "mapping": {"tp_size": 1}}
    engine = {"version": VERSION, "build_config": shared, "pretrained_config": pretrained}
    vision = {"builder_config": {"output_shape": [8, -1, WIDTH[family]]}}
    assert site.plan.trtllm is not None
    names = [command.name for command in site.plan.trtllm.engines]
    return site, {name: vision if name == "vision" else engine for name in names}


def verify(site: TrtllmSite, configs: dict[str, dict[str, Any]]) -> None:
    paths = site.paths
    assert site.plan.trtllm is not None
    for command in site.plan.trtllm.engines:
        folder = paths.work / built_folder(command, site.plan.trtllm)
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(configs[command.name]))
    gpu = GpuIdentity(product="NVIDIA-L40S", compute_capability="8.9")
    report = ToolReport(versions={"tensorrt_llm": VERSION}, gpu=gpu)
    paths.tools.write_text(report.to_json())
    verify_engines(StepContext(site.plan, site.source, paths))


@pytest.mark.parametrize("family", WIDTH)
def test_engines_that_fit(tmp_path: Path, family: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    site, configs = built(tmp_path, family)
    verify(site, configs)
    assert f"{', '.join(sorted(configs))} agree with the plan" in caplog.text


@cases(
    "family engine path value words",
    {
        "version": ("llava", "llm", "version", "1.0.0", "llm says TensorRT-LLM 1.0.0"),
        "table": (
            "llava",
            "llm",
            "build_config.max_prompt_embedding_table_size",
            5000,
            "llm has 5000 rows of images, and the plan ",
        ),
        "width": (
            "llava",
            "llm",
            "pretrained_config.hidden_size",
            5120,
            "llm is 5120 wide, and the checkpoint 4096",
        ),
        "vision": (
            "llava",
            "vision",
            "builder_config.output_shape",
            [8, -1, 1024],
            "vision gives rows of 1024, and the language model takes 4096",
        ),
        "encoder-input": (
            "t5",
            "decoder",
            "build_config.max_encoder_input_len",
            512,
            "the encoder reads 1024 tokens and the decoder accepts 512",
        ),
        "beams": (
            "t5",
            "encoder",
            "build_config.max_beam_width",
            4,
            "max_beam_width is 4 in the encoder and 1 in the decoder",
        ),
        "dtype": (
            "t5",
            "decoder",
            "pretrained_config.dtype",
            "float32",
            "dtype is float16 in the encoder and float32 in the decoder",
        ),
    },
)
def test_engines_that_do_not_fit(
    tmp_path: Path, *, family: str, engine: str, path: str, value: object, words: str
) -> None:
    site, configs = built(tmp_path, family)
    changed = json.loads(json.dumps(configs[engine]))
    *parents, key = path.split(".")
    inner = changed
    for parent in parents:
        inner = inner[parent]
    inner[key] = value
    with pytest.raises(VerificationFailedError, match="do not fit together") as caught:
        verify(site, {**configs, engine: changed})
    assert words in str(caught.value)
