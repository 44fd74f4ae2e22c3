"""The sink that turns pieces of one answer into Triton responses.

The engine's thread only leaves pieces here; their sender's thread makes the response. When it comes
to an answer it takes all pieces that wait, so a sender that is behind sends fewer, larger ones.

Whatever happens, the stream is closed exactly once: a decoupled model that forgets its final flag
leaves the client hanging and the server unable to stop.
"""

from collections import deque
from functools import partial
from typing import Any

import triton_python_backend_utils as pb_utils

from mm_runtime.serving.generate.gauges import RequestGauges
from mm_runtime.serving.generate.generation import join_pieces, write_piece
from mm_runtime.serving.generate.request import Piece
from mm_runtime.serving.send.response_sender import ResponseSender
from mm_runtime.serving.triton import refuse, respond

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class ResponseSink:
    """Sends pieces as they come, or all of them at the end."""

    def __init__(
        self, request: Any, gauges: RequestGauges, sender: ResponseSender, *, streaming: bool
    ) -> None:
        self._triton_sender = request.get_response_sender()
        self._gauges = gauges
        self._sender = sender
        self.streaming = streaming
        self.prompt: tuple[int, ...] = ()
        """Tokens in front of the full answer: `exclude_input_in_output` was set to false."""

        self._names = frozenset(request.requested_output_names())
        self._pieces: deque[Piece] = deque()
        """Given out by the engine and not sent yet."""

        self._sent: list[int] = []
        """Tokens of the responses so far; of the sender's thread."""

        self.closed = False
        """Whether nothing more is taken for it."""

        self._ended = False
        """Whether its last response was sent; of the sender's thread."""

        self._cancelled = False
        gauges.entered()
        sender.watch(self)

    def send(self, piece: Piece) -> None:
        """Leave a piece to the sender; the last one closes the stream."""
        if self.closed:
            return
        self.closed = piece.finish is not None
        self._pieces.append(piece)
        if self.streaming or self.closed:
            self._sender.put(self._send_pieces)

    def fail(self, error: Exception) -> None:
        self._close(error)

    def cancelled(self) -> None:
        self._close(None)

    def stop(self) -> None:
        self._cancelled = True

    def poll_cancellation(self) -> None:
        if self._triton_sender.is_cancelled():
            self._cancelled = True

    def is_cancelled(self) -> bool:
        return self._cancelled

    def _close(self, error: Exception | None) -> None:
        if not self.closed:
            self.closed = True
            self._sender.put(partial(self._end, error))

    def _send_pieces(self) -> None:
        """Send all pieces that wait as one response; none when a call before took them."""
        pieces = []
        while self._pieces:
            pieces.append(self._pieces.popleft())
        if not pieces or self._ended:
            return
        try:
            piece = join_pieces(pieces, self.prompt)
            written = write_piece(piece, self._sent, self._names)
            response = respond(written, requested=self._names)
        except Exception as error:  # noqa: BLE001 (else the request would stay open for ever)
            self.stop()
            self._end(error)
            return
        self._sent += piece.ids
        self._send(response, last=piece.finish is not None)

    def _end(self, error: Exception | None) -> None:
        self.closed = True
        if not self._ended:
            self._send(None if error is None else refuse(error), last=True)

    def _send(self, response: Any, *, last: bool) -> None:
        self._ended = last
        arguments = () if response is None else (response,)
        try:
            self._triton_sender.send(*arguments, flags=FINAL if last else 0)
        finally:
            if last:
                self._gauges.left()
