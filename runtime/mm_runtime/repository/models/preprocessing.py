"""Triton model `preprocessing`: see mm_runtime.engine.preparing."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import triton_python_backend_utils as pb_utils

from mm_api.metrics import PREPROCESSING_SECONDS
from mm_runtime.engine.executing import Executing
from mm_runtime.engine.histogram_gauges import HistogramGauges
from mm_runtime.engine.preparing import load_preprocessor
from mm_runtime.engine.remote_pictures import Fetched, RemotePictures
from mm_runtime.engine.tensors import Tensors
from mm_runtime.engine.triton import ModelSettings, refuse, respond

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class Reply(NamedTuple):
    """Where the one response of a request goes."""

    sender: Any
    began: float
    """When the request was taken up, by the clock that only goes forward."""

    executing: Executing

    def fail(self, error: Exception) -> None:
        """Send an error."""
        self.send(refuse(error))

    def send(self, response: Any) -> None:
        """Send the one response; the request is out of hand then."""
        try:
            self.sender.send(response, flags=FINAL)
        finally:
            self.executing.left()


class TritonPythonModel:
    """Text and pictures -> token ids and pixel values; sound -> a spectrogram."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load what the family needs: tokenizer, template, image processor or feature extractor."""
        self._settings = ModelSettings(args)
        serving = self._settings.serving
        self._preprocessor = load_preprocessor(self._settings.engine, serving)
        self._remote = RemotePictures.of(serving)
        self._seconds = HistogramGauges(PREPROCESSING_SECONDS)
        self._executing = Executing("preprocessing")

    def execute(self, requests: Sequence[Any]) -> None:
        """Answer each request by itself, later when its pictures have to be fetched first."""
        self._executing.entered(len(requests))
        for request in requests:
            reply = Reply(request.get_response_sender(), time.monotonic(), self._executing)
            try:
                inputs = self._settings.inputs(request)
                urls = self._preprocessor.remote_urls(inputs)
                if urls:
                    self._remote.fetch(urls, partial(self._answer, reply, inputs))
                else:
                    self._answer(reply, inputs, {})
            except Exception as error:  # noqa: BLE001 (the client gets it, and the server lives on)
                reply.fail(error)

    def _answer(self, reply: Reply, inputs: Tensors, found: Fetched | Exception) -> None:
        """Send the one response of a request."""
        if isinstance(found, Exception):
            reply.fail(found)
            return
        try:
            response = respond(self._preprocessor.prepare(inputs, found))
        except Exception as error:  # noqa: BLE001 (the client gets it, and the server lives on)
            reply.fail(error)
        else:
            self._seconds.observe(time.monotonic() - reply.began)
            reply.send(response)

    def finalize(self) -> None:
        """End the fetching thread."""
        self._remote.end()
