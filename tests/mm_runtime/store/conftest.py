"""Two small engines, in a directory and in a bucket."""

import hashlib
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mm_api.documents.engine_manifest import EngineFile, EngineManifest
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.sources.address import BucketAddress
from mm_runtime.store.bucket import BucketStore
from mm_runtime.store.directory import DirectoryStore
from mm_runtime.store.engines import EngineStore
from support.build_plans import build_plan
from support.hollow_checkpoint import write_checkpoint
from support.s3_server import S3Server

CREATED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CONTENT = {"llm/model.safetensors": bytes(range(256)) * 40, "processor/tokenizer.json": b"{}"}


@pytest.fixture(scope="session")
def plans(tmp_path_factory: pytest.TempPathFactory) -> list[EngineManifest]:
    facts = inspect(
        write_checkpoint(tmp_path_factory.mktemp("facts") / "checkpoint"), InspectOptions()
    )
    made = []
    for number in (1, 2):
        plan = build_plan(facts, tolerance=number / 1000)
        content = {**CONTENT, "vision/model.onnx": b"engine %d" % number}
        files = [
            EngineFile(path=name, size=len(data), sha256=hashlib.sha256(data).hexdigest())
            for name, data in sorted(content.items())
        ]
        made.append(
            EngineManifest(
                fingerprint=plan.fingerprint,
                created=CREATED,
                plan=plan,
                files=files,
                steps=[],
                versions={},
            )
        )
    return made


def fill(store: EngineStore, manifests: list[EngineManifest]) -> None:
    for number, manifest in enumerate(manifests, start=1):
        content = {**CONTENT, "vision/model.onnx": b"engine %d" % number}
        files = [(file, iter([content[file.path]])) for file in manifest.files]
        store.put(manifest.fingerprint, manifest.to_json().encode(), files)


@pytest.fixture
def directory(tmp_path: Path, plans: list[EngineManifest]) -> DirectoryStore:
    root = tmp_path / "store"
    root.mkdir()
    store = DirectoryStore(root)
    fill(store, plans)
    return store


@pytest.fixture
def bucket(
    s3: S3Server, plans: list[EngineManifest], monkeypatch: pytest.MonkeyPatch
) -> Iterator[BucketStore]:
    name = uuid.uuid4().hex
    s3.bucket(name)
    for variable, value in s3.environment.items():
        monkeypatch.setenv(variable, value)
    store = BucketStore(BucketAddress(name, "team/a"))
    fill(store, plans)
    return store


@pytest.fixture(params=["directory", pytest.param("bucket", marks=pytest.mark.s3)])
def store(request: pytest.FixtureRequest) -> EngineStore:
    found: EngineStore = request.getfixturevalue(request.param)
    return found
