"""What a model keeps of requests for later ones, on the way in and out of their slots.

It saves work and decides nothing: when it fails, the request continues as if nothing were kept.
"""

import logging

from mm_runtime.reference_engine.model import SlotModel
from mm_runtime.reference_engine.running import Running
from mm_runtime.serving.generate.request import Request

logger = logging.getLogger(__name__)


class Reuse:
    """Of one engine's model."""

    def __init__(self, model: SlotModel) -> None:
        self._model = model

    def recall(self, slot: int, request: Request) -> int:
        """Return how many positions of a prompt its slot holds from the start."""
        try:
            return self._model.recall(slot, request)
        except Exception:
            logger.exception("what is kept of earlier requests could not be read")
            return 0

    def keep(self, slot: int, running: Running) -> None:
        try:
            self._model.keep(slot, running.request, running.answer, running.length)
        except Exception:
            logger.exception("keys and values of a request could not be kept for others")
