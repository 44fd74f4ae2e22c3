"""A server that queries an encoder in a pod of its own, both real and on the tiny model."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from mm_api.documents.serving_plan import EncoderPlan, ServingPlan
from support.eventually import eventually
from support.served import PROGRAM, Served, start_serving
from support.tiny_llava import BuiltEngine

TIMEOUT_SECONDS = 60.0
"""Long: on a busy machine an encoder that lives must not be taken for one that hangs."""

CACHE_BYTES = 1 << 20

KEY = "what the operator derives from a model's uid"

TRITONS = "nv_inference_count"
"""On every page of a tritonserver that answers."""


def disaggregated(
    engine: BuiltEngine, folder: Path, *addresses: str, timeout_seconds: float = TIMEOUT_SECONDS
) -> Path:
    plan = ServingPlan.from_json(engine.serving.read_bytes())
    encoders = EncoderPlan(
        addresses=list(addresses), timeout_seconds=timeout_seconds, pools=plan.pools, key=KEY
    )
    file = folder / "serving.json"
    changed = plan.model_copy(update={"encoders": encoders, "feature_cache_bytes": CACHE_BYTES})
    file.write_text(changed.to_json())
    return file


def counted(served: Served, name: str) -> dict[str, float]:
    text = _page(served)
    return {
        next((v for k, v in sample.labels.items() if k not in {"model", "version"}), ""): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        # The parser gives every counter the ending, also those of Triton's that have none.
        if sample.name in {name, f"{name}_total"} and sample.value
    }


def _page(served: Served) -> str:
    """Return the metrics page once Triton's part is on it: the supervisor shows its own without."""
    page = ""

    def is_complete() -> bool:
        nonlocal page
        page = httpx.get(f"{served.metrics_url}/metrics", timeout=60).text
        return TRITONS in page

    eventually(is_complete)
    return page


@dataclass(frozen=True)
class Pair:
    """A server and its one encoder."""

    server: Served
    encoder: Served


@contextmanager
def run_encoder_pair(
    engine: BuiltEngine, folder: Path, program: Sequence[str] = PROGRAM
) -> Iterator[Pair]:
    """Start both at one time, as pods are started; `program`: see `start_serving`."""
    parts = {name: folder / name for name in ("encoder", "server")}
    for part in parts.values():
        part.mkdir()
    encoding = disaggregated(engine, parts["encoder"], "127.0.0.1:1")
    role = ("--role", "encoder")
    with start_serving(engine.manifest, encoding, *role, program=program) as encoder:
        requesting = disaggregated(engine, parts["server"], encoder.grpc_url)
        with start_serving(engine.manifest, requesting, program=program) as server:
            encoder.wait_until_ready()
            server.wait_until_ready()
            yield Pair(server, encoder)
