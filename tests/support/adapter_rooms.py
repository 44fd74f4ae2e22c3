"""Adapters of running models, put into a store as the operator's Job does."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from mm_api.documents.adapter_room import LoraRoom, RoomAdapters
from mm_api.documents.serving_plan import ServingPlan
from support.tiny_llava import BuiltEngine

_SECONDS = 120


def with_room(engine: BuiltEngine, folder: Path) -> BuiltEngine:
    """Return an engine with a serving plan of a new model, which has room for two adapters."""
    serving = folder / "serving-with-room.json"
    plan = ServingPlan.from_json(engine.serving.read_bytes())
    room = LoraRoom(key=str(uuid4()), max_adapters=2, max_rank=16)
    serving.write_text(plan.model_copy(update={"lora_room": room}).to_json())
    return BuiltEngine(engine.directory, serving)


def put_adapters(
    engine: BuiltEngine, adapters: Mapping[str, Path], *, generation: int
) -> RoomAdapters:
    """Run `mm-runtime adapters` for a model with room; return what it wrote."""
    given = [word for name, path in adapters.items() for word in ("--adapter", f"{name}={path}")]
    directory, room = engine.directory, ServingPlan.from_json(engine.serving.read_bytes()).lora_room
    assert room is not None
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mm_runtime", "adapters"),
            *("--store", str(directory.parents[1]), "--fingerprint", directory.name),
            *("--key", room.key, "--generation", str(generation)),
            *("--max-rank", str(room.max_rank), *given),
        ],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return RoomAdapters.from_json(done.stdout)
