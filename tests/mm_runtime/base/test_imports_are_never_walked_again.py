"""What is imported in one block is left alone by the collector, which works again behind it."""

import gc

import pytest

from mm_runtime.base.importing import importing


def test_the_collector_rests_in_the_block_and_forgets_what_it_made() -> None:
    try:
        with pytest.raises(ImportError), importing():
            made = [[]]
            assert not gc.isenabled()
            raise ImportError
        assert gc.isenabled()
        assert not any(one is made for one in gc.get_objects())
    finally:
        gc.unfreeze()
