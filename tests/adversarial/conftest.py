"""One real gateway before a real Triton, which the attacks of this folder share.

An attack: `async with under_attack(attacked, "name") as watched:`, then `watched.check()`.
"""

from collections.abc import Iterator

import pytest

from mm_api.documents.serving_plan import ServingPlan
from mm_api.gateway_memory import gateway_bytes
from support.memory_group import memory_group
from support.name_server import name_server
from support.real_gateway import run_pair
from support.tiny_llava import shared_engine
from support.under_attack import Attacked, held

MEGABYTES = 20
"""Of an image, the default of the resource: a body may have 29 MB."""


@pytest.fixture(scope="session")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """The gateway, ready, with the limits of a model that says nothing about them."""
    engine = shared_engine(tmp_path_factory)
    folder = tmp_path_factory.mktemp("attacked-pair")
    limits = {
        "max_concurrency": 8,
        "max_queue_size": 64,
        "max_image_bytes": MEGABYTES << 20,
        "max_images_per_request": 1,
        "max_image_pixels": 50_000_000,
        "request_timeout_seconds": 120,
    }
    plan = ServingPlan.from_json(engine.serving.read_bytes()).gateway.model_copy(update=limits)
    limit_bytes = gateway_bytes(plan, encodes=False)
    with (
        memory_group("mm-attacked", limit_bytes) as group,
        name_server(folder) as names,
        run_pair(engine, folder, group=group, names=names, **limits) as pair,
    ):
        yield Attacked(
            port=int(pair.url.rsplit(":", 1)[1]),
            model=pair.model,
            pid=pair.gateway.pid,
            limit_bytes=limit_bytes,
            rest_bytes=held(pair.gateway.pid).memory_bytes,
            group=group,
            names=names,
        )
