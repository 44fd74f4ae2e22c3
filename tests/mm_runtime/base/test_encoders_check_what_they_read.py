"""A pod checks the files that it opens, and an encoder opens no weights of the language model."""

import json
from pathlib import Path

import pytest

from mm_api.documents.engine_manifest import MANIFEST_NAME, EngineManifest
from mm_api.documents.server_state import Role
from mm_runtime.base import manifest as manifests
from mm_runtime.base.needed_files import needed_files
from mm_runtime.errors import EngineCorruptError
from support.gateways import toy_manifest
from support.served import EngineFiles


def damaged(built: EngineFiles, manifest: EngineManifest, folder: Path, path: str) -> Path:
    for file in manifest.files:
        place = folder / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.path == path:
            place.write_bytes(b"?" * file.size)
        else:
            place.symlink_to(built.manifest.parent / file.path)
    return folder


@pytest.mark.parametrize(
    ("path", "refusing"),
    [
        ("llm/model.safetensors", [Role.SERVER]),
        ("llm/config.json", [Role.SERVER, Role.ENCODER]),
        ("vision/model.onnx", [Role.SERVER, Role.ENCODER]),
    ],
)
def test_a_damaged_file_is_found_by_those_who_open_it(
    random_engine: EngineFiles, tmp_path: Path, path: str, refusing: list[Role]
) -> None:
    """Weights of the language model keep no encoder from its work; its own files do."""
    manifest = manifests.read(random_engine.manifest)
    folder = damaged(random_engine, manifest, tmp_path, path)
    found = []
    for role in Role:
        try:
            manifests.verify(folder, manifest, needed_files(manifest.files, role))
        except EngineCorruptError:
            found.append(role)
    assert found == refusing


def test_an_encoder_leaves_most_of_an_engine_to_others(random_engine: EngineFiles) -> None:
    files = manifests.read(random_engine.manifest).files
    left = {file.path for file in files} - {file.path for file in needed_files(files, Role.ENCODER)}
    assert left == {"llm/model.safetensors"}


def _written(folder: Path, **fields: object) -> Path:
    path = folder / MANIFEST_NAME
    path.write_text(json.dumps(json.loads(toy_manifest().to_json()) | fields))
    return path


def test_any_other_unknown_field_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineCorruptError, match="goldens: Extra inputs are not permitted"):
        manifests.read(_written(tmp_path, goldens={}))
