"""A namespace whose claim holds a good checkpoint, shared by all faults; models go in between."""

from collections.abc import Iterator

import pytest

from support.clusters import eventually
from support.installed import Installed, Space, model_space
from support.random_llava import write_random_llava

CHECKPOINT = "good"
GONE_SECONDS = 90.0


@pytest.fixture(name="faults", scope="session")
def space_of_all_faults(
    installed: Installed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Space]:
    """Make the namespace and fill its claim; what a checkpoint has learnt is nothing to a fault."""
    with model_space(installed, "faults") as space:
        space.upload(write_random_llava(tmp_path_factory.mktemp("checkpoint")), CHECKPOINT)
        yield space


@pytest.fixture(name="space", scope="module")
def space_of_one_module(faults: Space) -> Iterator[Space]:
    """Lend the namespace to the tests of a file; afterwards nothing of theirs is left in it."""
    yield faults
    faults.kubectl("delete", "mmm", "--all", "--timeout=60s")
    assert eventually(lambda: not faults.names("pods"), timeout=GONE_SECONDS), faults.names("pods")
