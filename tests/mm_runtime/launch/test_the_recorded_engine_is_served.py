"""A server opens the engine that its build recorded, not whatever took its place in the store."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from mm_api.documents.server_state import Role
from mm_runtime.backends import BACKENDS
from mm_runtime.errors import EngineCorruptError
from mm_runtime.launch.options import ServeOptions
from mm_runtime.launch.serve import serve
from mm_runtime.settings import Ports
from support.native_engines import native_engine


@pytest.fixture(name="options")
def options_of_a_recorded_engine(tmp_path: Path) -> ServeOptions:
    engine, serving = native_engine("llava", {})
    manifest = tmp_path / "manifest.json"
    manifest.write_text(engine.to_json(indent=1))
    recorded = sha256(manifest.read_bytes()).hexdigest()
    return ServeOptions(
        manifest=manifest,
        serving_path=tmp_path / "serving.json",
        serving=serving.model_copy(update={"manifest_sha256": recorded}),
        repository=tmp_path / "repository",
        ports=Ports(),
    )


def refusal(options: ServeOptions) -> str:
    with pytest.raises(EngineCorruptError, match="is not the manifest of the recorded build") as it:
        serve(options, BACKENDS[options.serving.backend].prepare_server)
    return str(it.value)


@pytest.mark.parametrize("role", list(Role))
def test_a_replaced_manifest_is_refused(options: ServeOptions, role: Role) -> None:
    """It is complete and of the right fingerprint; the error names it and both digests."""
    engine, _ = native_engine("llava", {})
    other = engine.model_copy(update={"versions": {"torch": "0"}})
    options.manifest.write_text(other.to_json(indent=1))
    said = refusal(replace(options, role=role))
    assert f"expected {options.serving.manifest_sha256}." in said
    assert str(options.manifest) in said


def test_a_garbled_manifest_is_not_said_to_be_replaced_for_certain(options: ServeOptions) -> None:
    """Zeros, as a loss of power may leave them: the error says that damage is possible."""
    options.manifest.write_bytes(b"\0" * 64)
    assert "replaced in the store, or its manifest was damaged;" in refusal(options)
