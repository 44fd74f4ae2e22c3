"""The sink that turns pieces of one answer into Triton responses.

Whatever happens, the stream is closed exactly once: a decoupled model that forgets its final flag
leaves the client hanging and the server unable to stop.
"""

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
        """Take Triton's request; it counts as active from now on."""
        self._triton_sender = request.get_response_sender()
        self._gauges = gauges
        self._sender = sender
        self.streaming = streaming
        self.prompt: tuple[int, ...] = ()
        """Tokens in front of the full answer: `exclude_input_in_output` was set to false."""

        self._pieces: list[Piece] = []
        self.closed = False
        """Whether its last response was handed to the outbox."""

        self._cancelled = False
        gauges.entered()
        sender.watch(self)

    def send(self, piece: Piece) -> None:
        """Send or keep a piece; close the stream after the last one."""
        if not self.streaming:
            self._pieces.append(piece)
            if piece.finish is None:
                return
            piece = join_pieces(self._pieces, self.prompt)
        self._respond(respond(write_piece(piece)), last=piece.finish is not None)

    def fail(self, error: Exception) -> None:
        """Send the error and close the stream."""
        self._respond(refuse(error), last=True)

    def cancelled(self) -> None:
        """Close the stream of a cancelled request."""
        self._respond(None, last=True)

    def stop(self) -> None:
        """End the answer as a cancellation does."""
        self._cancelled = True

    def poll_cancellation(self) -> None:
        """Poll Triton for a cancellation of the request."""
        if self._triton_sender.is_cancelled():
            self._cancelled = True

    def is_cancelled(self) -> bool:
        """Return whether the client has cancelled or requested a stop, as of the last poll."""
        return self._cancelled

    def _respond(self, response: Any, *, last: bool) -> None:
        if self.closed:
            return
        self.closed = last
        self._sender.put(partial(self._send, response, last=last))

    def _send(self, response: Any, *, last: bool) -> None:
        arguments = () if response is None else (response,)
        try:
            self._triton_sender.send(*arguments, flags=FINAL if last else 0)
        finally:
            if last:
                self._gauges.left()
