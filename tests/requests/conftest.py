"""What the requests of this folder are sent to; its server is of `support.tiny_servers`."""

from collections.abc import Iterator

import pytest

from support.image_host import ImageHost, serve_images


@pytest.fixture(scope="session")
def host() -> Iterator[ImageHost]:
    with serve_images() as images:
        yield images


@pytest.fixture(params=("ensemble", "tensorrt_llm_bls"))
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)
