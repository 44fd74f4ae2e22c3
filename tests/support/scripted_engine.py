"""An engine of the gateway's protocol that answers from a script, token by token.

For claims about what the gateway itself does (streams, limits, errors, queues). Claims about the
entire path are made with a real Triton.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text


@dataclass
class ScriptedEngine:
    """Yields `pieces`, then raises `error` if there is one.

    Attributes:
        gate: when set, every piece after the first waits for it, and so does a natural end.
        requests: what was queried, in order.
        running: requests that are being answered now.
        most_running: the highest that `running` ever was.
        cancelled: requests that were closed before their end.
    """

    pieces: tuple[str, ...] = ("a", " red", " square")
    error: Exception | None = None
    gate: asyncio.Event | None = None
    ready: bool = True
    requests: list[EngineRequest] = field(default_factory=list)
    running: int = 0
    most_running: int = 0
    cancelled: int = 0

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        """Answer from the script, a piece for each token; never more than were requested."""
        self.requests.append(request)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        finished = False
        try:
            for index, piece in enumerate(self._answer(request.max_tokens)):
                await asyncio.sleep(0)
                if index and self.gate is not None and not _is_cut(piece):
                    await self.gate.wait()
                if self.error is not None and isinstance(piece, Ended):
                    break
                finished = isinstance(piece, Ended)
                yield piece
            if self.error is not None:
                raise self.error
            finished = True
        finally:
            self.running -= 1
            self.cancelled += not finished

    def _answer(self, max_tokens: int) -> tuple[Text | Ended, ...]:
        """Return the script, cut to the number of tokens, and its end; nothing of no script."""
        if not self.pieces:
            return ()
        texts = tuple(Text(piece) for piece in self.pieces[:max_tokens])
        cut = len(texts) == max_tokens
        reason = FinishReason.LENGTH if cut else FinishReason.STOP
        return (*texts, Ended(reason, len(texts)))

    async def is_ready(self) -> bool:
        return self.ready


def _is_cut(piece: Text | Ended) -> bool:
    return isinstance(piece, Ended) and piece.reason is FinishReason.LENGTH
