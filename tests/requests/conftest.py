"""What the requests of this folder are sent to; its server is of `support.tiny_servers`."""

from collections.abc import Iterator

import pytest

from support.image_host import ImageHost, serve_images

MODELS = ("ensemble", "tensorrt_llm_bls")
"""What clients query."""


@pytest.fixture(scope="session")
def host() -> Iterator[ImageHost]:
    """A host of images that the server may fetch from."""
    with serve_images() as images:
        yield images


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    """Each model that clients query."""
    return str(request.param)
