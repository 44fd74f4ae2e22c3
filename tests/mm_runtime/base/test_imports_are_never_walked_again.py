"""What is imported in one block is left alone by the collector, which works again behind it."""

import gc

from mm_runtime.base.importing import importing


def test_the_collector_rests_in_the_block_and_forgets_what_it_made() -> None:
    try:
        with importing():
            made: list[list[int]] = [[]]
            resting = not gc.isenabled()
        assert (resting, gc.isenabled()) == (True, True)
        assert not any(one is made for one in gc.get_objects())
    finally:
        gc.unfreeze()
