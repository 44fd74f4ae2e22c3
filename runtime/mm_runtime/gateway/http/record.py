"""What metrics and the log learn about one exchange. Numbers only: nothing a client wrote."""

import time
from http import HTTPStatus

from mm_edge.request_log import CLIENT_GONE
from mm_runtime.gateway.dataplane import Admitted, Event, Finished, Piece
from mm_runtime.gateway.metrics import GatewayMetrics
from mm_runtime.gateway.prepared import PreparedRequest


class ExchangeRecord:
    """Times and counts of one request; before its status is set, its client counts as gone."""

    def __init__(self, metrics: GatewayMetrics, request_id: str) -> None:
        self._metrics = metrics
        self.request_id = request_id
        self.started = time.monotonic()
        self.status: int = CLIENT_GONE
        self._first_token: float | None = None
        self._last_tokens: dict[int, float] = {}
        """By choice."""

        self._key = ""
        self._model: str | None = None
        self._generated = 0
        self._waited: float | None = None
        self._images = 0
        self._prompt_tokens = 0
        self._used_tokens = 0
        self._closed = False
        self.replay = False

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def tokens(self) -> int:
        return self._used_tokens + self._generated

    def replays(self, unseen: GatewayMetrics) -> None:
        """Note that no client sent it; `unseen` counts it, which is never scraped."""
        self.replay, self._metrics = True, unseen

    def let_in(self, key: str) -> None:
        """Note whose request it is, by the name of its token; empty: none is required."""
        self._key = key
        if key:
            self._metrics.count_key("mm_key_requests_total", key)

    def prepared(self, request: PreparedRequest, model: str) -> None:
        self._model = model
        self._images = request.image_count
        self._prompt_tokens = request.prompt_tokens
        self._used_tokens = request.input_tokens
        # Arrivals, whatever becomes of the request: what the autoscaler counts work by.
        self._metrics.count("mm_requests_accepted_total")
        self._metrics.count("mm_images_total", request.image_count)
        self._metrics.count("mm_image_tokens_total", request.features)
        self._metrics.count("mm_prompt_tokens_total", request.prompt_tokens)

    def event(self, event: Event) -> None:
        """Note what the engine did."""
        match event:
            case Admitted():
                self._waited = event.waited_seconds
                self._metrics.observe("mm_queue_seconds", event.waited_seconds)
            case Piece():
                self._generated += event.tokens
                self._tokens(time.monotonic(), event)
            case Finished():
                self._generated = event.completion_tokens
                self._metrics.count("mm_output_tokens_total", event.completion_tokens)

    def completed(self) -> None:
        """Count an answer whose last byte is out: no client that has it finds it uncounted."""
        if self.status == CLIENT_GONE:
            self.status = HTTPStatus.OK
        self.close()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._metrics.count_finished(self.status)
        if self._key:
            self._metrics.count_key("mm_key_tokens_total", self._key, self.tokens)
        if self.status == HTTPStatus.OK:
            self._metrics.observe("mm_request_seconds", self.elapsed)

    @property
    def fields(self) -> dict[str, object]:
        """Return what the log's line of the request says; null: it did not come to that."""
        first = self._first_token
        return {
            "status": int(self.status),
            "key": self._key or None,
            "model": self._model,
            "engine_request": self.request_id,
            "queue_seconds": None if self._waited is None else round(self._waited, 4),
            "first_token_seconds": None if first is None else round(first - self.started, 4),
            "images": self._images,
            "prompt_tokens": self._prompt_tokens,
            "output_tokens": self._generated,
            **({"replay": True} if self.replay else {}),
        }

    def _tokens(self, now: float, piece: Piece) -> None:
        """Note tokens that came together: they share the time since those before."""
        tokens, last = piece.tokens, self._last_tokens.get(piece.choice)
        if self._first_token is None:
            self._first_token = now
            self._metrics.observe("mm_time_to_first_token_seconds", now - self.started)
        if last is None:
            self._last_tokens[piece.choice] = last = now
            tokens -= 1
        if tokens < 1:
            return
        share = (now - last) / tokens
        for _ in range(tokens):
            self._metrics.observe("mm_inter_token_seconds", share)
        self._last_tokens[piece.choice] = now
