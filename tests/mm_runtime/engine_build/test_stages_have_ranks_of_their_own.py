"""Pipeline parallelism: every stage is a rank, in the checkpoint, in the engines and in configs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mm_api.contract import ExitCode
from mm_runtime.base import manifest as manifests
from support.trtllm_sites import TrtllmSite, trtllm_site, use_site
from support.trtllm_tools.install import H100, Tools, write_gpu

pytestmark = pytest.mark.usefixtures("quick_builds")


def staged(site: TrtllmSite, stages: int, *, reported: int | None = None) -> TrtllmSite:
    build = site.plan.trtllm
    assert build is not None
    argv = [*build.convert.argv, "--pp_size", str(stages if reported is None else reported)]
    changed = build.model_copy(
        update={
            "pipeline_parallel": stages,
            "convert": build.convert.model_copy(update={"argv": argv}),
        }
    )
    return replace(site, plan=site.plan.model_copy(update={"trtllm": changed}))


def test_each_stage_and_split_is_a_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: Tools
) -> None:
    """2 stages of 2 GPUs are 4 engines, and the engine's config says both."""
    site = trtllm_site(tmp_path, tools, "llava", {"parallelism": {"tensor": 2}})
    site = use_site(monkeypatch, staged(site, 2))
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    files = {file.path for file in manifests.read(site.paths.manifest).files}
    assert {f"llm/rank{rank}.engine" for rank in range(4)} == {
        path for path in files if path.startswith("llm/rank")
    }
    config = json.loads((site.paths.engine / "llm" / "config.json").read_text())
    mapping = config["pretrained_config"]["mapping"]
    assert (mapping["world_size"], mapping["tp_size"], mapping["pp_size"]) == (4, 2, 2)


def test_a_converter_with_other_stages_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: Tools
) -> None:
    site = use_site(monkeypatch, staged(trtllm_site(tmp_path, tools, "llava"), 2, reported=1))
    result, _ = site.build()
    assert result.failure is not None
    assert result.failure.step == "convert"
    assert "did not write tree/build/converted/rank1.safetensors" in result.failure.message


def log_of(site: TrtllmSite) -> str:
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    return (site.paths.engine / "build" / "build-llm.log").read_text()


def caches(site: TrtllmSite) -> list[Path]:
    return sorted((site.store / "timing-caches").iterdir())


def test_the_next_engine_begins_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: Tools
) -> None:
    first = use_site(monkeypatch, trtllm_site(tmp_path / "a", tools, "llava"))
    assert "Invalid timing cache" in log_of(first)
    second = trtllm_site(tmp_path / "b", tools, "llava", {"maxBatchSize": 2})
    second = replace(second, store=first.store)
    assert "timing cache with 1 entries" in log_of(second)
    third = trtllm_site(tmp_path / "c", tools, "llava", gpu="a100-80gb")
    write_gpu(tools, "NVIDIA A100-SXM4-80GB", "8.0")
    try:
        assert "Invalid timing cache" in log_of(replace(third, store=first.store))
    finally:
        write_gpu(tools, *H100)  # of the tests that share the tools
    assert len(caches(first)) == 2


def test_a_damaged_one_costs_one_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: Tools
) -> None:
    """TensorRT fails on it; the next attempt has none, continues, and leaves a new one."""
    site = use_site(monkeypatch, trtllm_site(tmp_path, tools, "llava"))
    log_of(site)
    (cache,) = caches(site)
    cache.write_bytes(b"\x00torn")
    other = trtllm_site(tmp_path / "b", tools, "llava", {"maxBatchSize": 2})
    other = replace(other, store=site.store)
    result, code = other.build()
    assert result.failure is not None
    assert (result.failure.step, code) == ("build-llm", ExitCode.RETRY)
    assert "Invalid timing cache" in log_of(other)
    assert cache.is_file()
