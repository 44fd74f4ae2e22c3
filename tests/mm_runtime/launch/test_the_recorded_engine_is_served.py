"""A server opens the engine that its build recorded, not whatever took its place in the store."""

from hashlib import sha256
from pathlib import Path

import pytest

from mm_api.documents.server_state import Role
from mm_runtime.errors import EngineCorruptError
from mm_runtime.launch.options import ServeOptions
from mm_runtime.launch.serve import serve
from mm_runtime.settings import Ports
from support.native_engines import native_engine


@pytest.mark.parametrize("role", list(Role))
def test_a_replaced_manifest_is_refused(tmp_path: Path, role: Role) -> None:
    """It is complete and of the right fingerprint; the error names it and both digests."""
    engine, serving = native_engine("llava", {})
    manifest = tmp_path / "manifest.json"
    manifest.write_text(engine.to_json(indent=1))
    recorded = sha256(manifest.read_bytes()).hexdigest()
    manifest.write_text(engine.model_copy(update={"versions": {"torch": "0"}}).to_json(indent=1))
    options = ServeOptions(
        manifest=manifest,
        serving_path=tmp_path / "serving.json",
        serving=serving.model_copy(update={"manifest_sha256": recorded}),
        repository=tmp_path / "repository",
        ports=Ports(),
        role=role,
    )
    with pytest.raises(EngineCorruptError, match="is not the manifest of the recorded build") as it:
        serve(options)
    assert recorded in str(it.value)
    assert str(manifest) in str(it.value)
