"""TensorRT's timing cache stays with the store, for builds of one version on one kind of GPU."""

from dataclasses import replace
from pathlib import Path

import pytest

from mm_api.contract import ExitCode
from support.trtllm_sites import TrtllmSite, trtllm_site, use_site
from support.trtllm_tools.install import H100, Tools, install, write_gpu

pytestmark = pytest.mark.usefixtures("quick_builds")


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    return install(tmp_path_factory.mktemp("tools") / "root", "0.20.0")


def log_of(site: TrtllmSite) -> str:
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    return (site.paths.engine / "build" / "build-llm.log").read_text()


def caches(site: TrtllmSite) -> list[Path]:
    return sorted((site.store / "timing-caches").iterdir())


def test_the_next_engine_begins_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: Tools
) -> None:
    """A second engine reads what the first one measured; another GPU starts from nothing."""
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
