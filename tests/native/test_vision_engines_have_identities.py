"""Encoders in pods of their own: what they pull, and what distinguishes vision engines."""

from datetime import UTC, datetime

import pytest

from mm_api.documents.engine_manifest import EngineFile, EngineManifest
from mm_api.documents.server_state import Role
from mm_runtime.base.needed_files import needed_files
from mm_runtime.serving.encode.disaggregated.identity import vision_identity
from support.cases import cases
from support.native_engines import native_engine

VERSIONS = [
    pytest.param("0.16.0", "vision_encoder", id="oldest"),
    pytest.param("1.3.0rc20", "multimodal_encoder", id="newest"),
]


def manifest(version: str, files: dict[str, str]) -> EngineManifest:
    made, _ = native_engine("llava", version=version)
    listed = [EngineFile(path=path, size=1, sha256=digit * 64) for path, digit in files.items()]
    return made.model_copy(update={"files": listed, "created": datetime(2026, 1, 1, tzinfo=UTC)})


def built(folder: str, **changes: str) -> dict[str, str]:
    """Return the files of an engine; `changes` replace digests by the file's last name."""
    files = {
        "llm/config.json": "1",
        "llm/rank0.engine": "2",
        f"{folder}/config.json": "3",
        f"{folder}/model.engine": "4",
        "processor/config.json": "5",
        "processor/tokenizer.json": "6",
    }
    return {path: changes.get(path, digit) for path, digit in files.items()}


@pytest.mark.parametrize(("version", "folder"), VERSIONS)
def test_an_encoder_pulls_its_engine(version: str, folder: str) -> None:
    """The vision engine and what is small; not the language model's engine."""
    files = manifest(version, built(folder)).files
    pulled = {one.path for one in needed_files(files, Role.ENCODER)}
    assert pulled == set(built(folder)) - {"llm/rank0.engine"}


@pytest.mark.parametrize(("version", "folder"), VERSIONS)
@cases(
    "file differs",
    {
        "vision-engine": ("{}/model.engine", True),
        "checkpoint": ("processor/config.json", True),
        "limits-of-the-language-model": ("llm/config.json", False),
        "language-model": ("llm/rank0.engine", False),
    },
)
def test_other_features_have_another_identity(
    version: str, folder: str, file: str, *, differs: bool
) -> None:
    changed = built(folder, **{file.format(folder): "9"})
    before = vision_identity(manifest(version, built(folder)))
    assert differs == (before != vision_identity(manifest(version, changed)))
