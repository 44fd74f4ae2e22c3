"""Triton model `tensorrt_llm_bls`; what it does is in mm_runtime.engine.chain."""

import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import triton_python_backend_utils as pb_utils

from mm_runtime.engine.abandoned import AbandonedRequests
from mm_runtime.engine.calls import call_model, stop_answer
from mm_runtime.engine.chain import Chain
from mm_runtime.engine.triton import ModelSettings, refuse, respond
from mm_runtime.repository.configs import tensorrt_llm_bls as declared

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
ID_BYTES = 8


class TritonPythonModel:
    """The ensemble's steps in one model, decoupled; a thread waits for each running request."""

    def initialize(self, args: dict[str, str]) -> None:
        """Start the threads."""
        settings = ModelSettings(args)
        self._settings = settings
        has_vision = settings.engine.vision is not None
        self._chain = Chain(
            steps=declared.steps(has_vision=has_vision),
            outputs=frozenset(tensor.name for tensor in declared.OUTPUTS),
            accumulate=settings.serving.accumulate_tokens,
        )
        count = int(settings.number("concurrency", 1))
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="bls")
        self._abandoned = AbandonedRequests(stop_answer)

    def execute(self, requests: Sequence[Any]) -> None:
        """Hand each request to a thread and return at once."""
        for request in requests:
            self._threads.submit(self._answer, request, request.get_response_sender())

    def _answer(self, request: Any, sender: Any) -> None:
        """Send all responses of one request; the stream is closed exactly once."""
        # The client's own id may be another request's too, and stopping goes by it.
        request_id = f"{declared.NAME}-{secrets.token_hex(ID_BYTES)}"
        self._abandoned.add(request_id, sender)
        call = partial(call_model, request_id=request_id)
        closed = False
        try:
            for outputs, last in self._chain.answer(self._settings.inputs(request), call):
                if last:
                    self._abandoned.remove(request_id)
                sender.send(respond(outputs), flags=FINAL if last else 0)
                closed = last
        except Exception as error:  # noqa: BLE001 (the client gets it, and the server lives on)
            self._abandoned.remove(request_id)
            if not closed:
                closed = True
                sender.send(refuse(error), flags=FINAL)
        finally:
            self._abandoned.remove(request_id)
            if not closed:
                sender.send(flags=FINAL)

    def finalize(self) -> None:
        """End the threads; Triton has let running requests finish before."""
        self._abandoned.end()
        self._threads.shutdown()
