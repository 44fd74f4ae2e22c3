"""The plan's commands build engines of every family, word for word, with the recorded tools."""

import shlex
from pathlib import Path

import pytest

from mm_operator.cli.plan_commands import as_commands
from mm_runtime.build import manifest as manifests
from mm_runtime.errors import ExitCode
from support.model_configs import ENCODER_DECODERS, FOLDERS, VERSIONS, WITH_PICTURES
from support.trtllm_sites import TrtllmSite, journalled, trtllm_site
from support.trtllm_tools.install import Tools, install


@pytest.fixture(scope="module")
def tool_sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tools]:
    """The recorded tools of every version."""
    root = tmp_path_factory.mktemp("tools")
    return {version: install(root / version, version) for version in VERSIONS}


def use(monkeypatch: pytest.MonkeyPatch, site: TrtllmSite) -> TrtllmSite:
    """Give this process the site's environment."""
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    return site


@pytest.mark.parametrize("family", FOLDERS)
def test_family_is_built(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tool_sets: dict[str, Tools],
    family: str,
) -> None:
    """The engines are whole, and what was run is what `mmctl plan -o commands` prints."""
    site = use(monkeypatch, trtllm_site(tmp_path, tool_sets["0.20.0"], family))
    result, code = site.build()
    assert (code, result.failure) == (ExitCode.OK, None)
    manifest = manifests.read(site.places.manifest)
    manifests.verify(site.places.engine, manifest)
    files = {file.path for file in manifest.files}
    folders = {"encoder", "decoder"} if family in ENCODER_DECODERS else {"llm"}
    if family in WITH_PICTURES:
        assert "multimodal_encoder/model.engine" in files
    assert {f"{folder}/rank0.engine" for folder in folders} <= files
    printed = as_commands(site.planned).replace("\\\n", " ")
    commands = [shlex.split(line) for line in printed.splitlines() if line[:1] not in {"#", ""}]
    assert [["set", "-eu"], *journalled(site).values()] == commands
    assert (manifest.versions["tensorrt_llm"], manifest.gpu is not None) == ("0.20.0", True)
