"""Triton model `preprocessing`: see mm_runtime.serving.preprocess.by_family."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mm_api.metrics import PREPROCESSING_SECONDS
from mm_runtime.images.fetch import FetchPolicy
from mm_runtime.serving.metrics.families import Executing, end_metrics
from mm_runtime.serving.metrics.histograms import HistogramGauges
from mm_runtime.serving.preprocess.by_family import load_preprocessor
from mm_runtime.serving.preprocess.remote_images import Fetched, RemoteImages
from mm_runtime.serving.send.deferred_response import DeferredResponse
from mm_runtime.serving.triton import ModelSettings, Outputs


class TritonPythonModel:
    """Text and images -> token ids and pixel values; audio -> a spectrogram."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load what the family needs: tokenizer, template, image processor or feature extractor."""
        self._settings = ModelSettings(args)
        serving = self._settings.serving
        self._preprocessor = load_preprocessor(self._settings.engine, serving)
        self._remote = RemoteImages(FetchPolicy.of(serving.gateway))
        self._seconds = HistogramGauges(PREPROCESSING_SECONDS)
        # `preprocessing_0` is the only process, `preprocessing_0_1` the second of several.
        self._executing = Executing(args["model_instance_name"].removesuffix("_0"))

    def execute(self, requests: Sequence[Any]) -> None:
        """Answer each request by itself, later when its images have to be fetched first."""
        for request in requests:
            response = DeferredResponse(request, self._executing, self._settings.output_types)
            began = time.monotonic()
            try:
                inputs = self._settings.inputs(request)
                prepare = partial(
                    self._preprocessor.prepare, inputs, requested=request.requested_output_names()
                )
                urls = self._preprocessor.remote_urls(inputs)
                if urls:
                    self._remote.fetch(urls, partial(self._answer, response, began, prepare))
                else:
                    self._answer(response, began, prepare, {})
            except Exception as error:  # noqa: BLE001 (the client gets it, and the server lives on)
                response.send(error)

    def _answer(
        self,
        response: DeferredResponse,
        began: float,
        prepare: Callable[..., Outputs],
        found: Fetched | Exception,
    ) -> None:
        """Send the one response of a request that was taken up at `began`, by a steady clock."""
        if isinstance(found, Exception):
            response.send(found)
            return
        try:
            prepared = prepare(fetched=found)
        except Exception as error:  # noqa: BLE001 (the client gets it, and the server lives on)
            response.send(error)
        else:
            self._seconds.observe(time.monotonic() - began)
            response.send(prepared)

    def finalize(self) -> None:
        self._remote.end()
        end_metrics()
