"""Decoders that outlive their gateway: the next gateway of a test takes them as they are.

A decoder imports for half a second of a core, and most tests of a gateway send it one image. What
is one test's is not seen by another: a decoder keeps nothing of a file, and one that is ended, or
busy when its gateway closes, is not kept.
"""

import atexit
import threading
from concurrent.futures import ThreadPoolExecutor

from mm_runtime.gateway.media.decoding.pool import Decoders
from mm_runtime.gateway.media.decoding.process import DecoderLimits, DecoderProcess

KEPT = 2
"""Of the same limits: as many as a toy gateway has."""

_kept: dict[DecoderLimits, list[DecoderProcess]] = {}
_lock = threading.Lock()
# A decoder ends with the thread that has started it.
_starter = ThreadPoolExecutor(1, thread_name_prefix="kept-decoders")


@atexit.register
def _end_kept() -> None:
    for decoder in (one for kept in _kept.values() for one in kept):
        decoder.end()


class KeptDecoders(Decoders):
    """Decoders of one gateway, taken over from those before it."""

    def close(self) -> None:
        """End all but those that are idle and will be used again."""
        with self._lock:
            for coming in [one for one in self._idle if one.done()]:
                decoder = coming.result()
                if decoder.is_usable and _keep(self._limits, decoder):
                    self._idle.remove(coming)
                    self._all.remove(decoder)
        super().close()

    def _start(self) -> DecoderProcess:
        decoder = _taken(self._limits) or _starter.submit(DecoderProcess, self._limits).result()
        with self._lock:
            self._all.add(decoder)
        return decoder


def _keep(limits: DecoderLimits, decoder: DecoderProcess) -> bool:
    with _lock:
        kept = _kept.setdefault(limits, [])
        if len(kept) < KEPT:
            kept.append(decoder)
            return True
    return False


def _taken(limits: DecoderLimits) -> DecoderProcess | None:
    with _lock:
        while kept := _kept.get(limits):
            decoder = kept.pop()
            if decoder.is_usable:
                return decoder
            decoder.end()
    return None
