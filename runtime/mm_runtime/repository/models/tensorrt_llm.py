"""Triton model `tensorrt_llm` on the Reference engine; see mm_runtime.reference_engine."""

import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any
from weakref import WeakValueDictionary

from mm_api.metrics import DECODE_BATCH
from mm_runtime.base.importing import importing

with importing():
    from mm_runtime.reference_engine.engine import Engine
    from mm_runtime.reference_engine.guides import Guides
    from mm_runtime.reference_engine.load import load_engine
    from mm_runtime.reference_engine.options import Ending
    from mm_runtime.serving.device import copier_of, device_of
    from mm_runtime.serving.generate.gauges import RequestGauges, ReuseGauges
    from mm_runtime.serving.generate.generation import is_streaming, read_request, shown_prompt
    from mm_runtime.serving.generate.input_reader import InputReader
    from mm_runtime.serving.generate.request import GuideRequest, Request
    from mm_runtime.serving.gpu_guard import guard_of, loading
    from mm_runtime.serving.metrics.families import end_metrics
    from mm_runtime.serving.metrics.histograms import HistogramGauges
    from mm_runtime.serving.prompts.tokens import TextCodec
    from mm_runtime.serving.send.response_sender import (
        RESPONSE_SENDERS,
        ResponseSender,
        ResponseSenders,
    )
    from mm_runtime.serving.send.stream import ResponseSink
    from mm_runtime.serving.tensors import Tensors, scalar
    from mm_runtime.serving.triton import ModelSettings

MILLISECONDS = 1000

CANCELLED_WITHIN_SECONDS = 0.4
"""A slot is to be free a second after its client has disconnected; the gateway cancels at once
(`stop`)."""

LAST_SECONDS = 1.0
"""For the last responses of a process that has lost its GPU; then it ends."""


class TritonPythonModel:
    """Token ids and a prompt table -> tokens, decoupled: one response a step."""

    _engine: Engine

    def initialize(self, args: dict[str, str]) -> None:
        """Load the model and start the engine's thread."""
        self._settings = ModelSettings(args)
        directory, serving = self._settings.engine, self._settings.serving
        period = self._settings.number("cancellation_check_period_ms", 20) / MILLISECONDS
        with loading("the language model", serving.device):
            device = device_of(serving)
            loaded = load_engine(
                directory,
                max_queue_size=serving.max_queue_size,
                cancellation_check_seconds=period,
                device=device,
                reuse_bytes=serving.reuse_bytes or 0,
            )
        copier = copier_of(device)
        self._arrivals = None if copier is None else InputReader(copier)
        self._engine, self._end_ids = loaded.engine, loaded.end_ids
        self._vocabulary_size = loaded.vocabulary_size
        self._complete = loaded.complete
        self._encoder_decoder = loaded.encoder_decoder
        self._adapters = loaded.adapters
        most = directory.limits.max_batch_size
        self._gauges = RequestGauges(most)
        self._senders = ResponseSenders(
            lambda: ResponseSender(
                poll_interval_seconds=period,
                poll_within_seconds=CANCELLED_WITHIN_SECONDS,
                max_polls_per_round=ceil(most / RESPONSE_SENDERS),
            ),
            RESPONSE_SENDERS,
        )
        self._guides = Guides(
            TextCodec(directory.tokenizer),
            vocabulary_size=loaded.vocabulary_size,
            end_ids=loaded.end_ids,
        )
        self._guiding = ThreadPoolExecutor(1, thread_name_prefix="guides")
        self._sinks: WeakValueDictionary[str, ResponseSink] = WeakValueDictionary()
        steps = HistogramGauges(DECODE_BATCH)
        reuse = None if serving.reuse_bytes is None else ReuseGauges()
        guard = guard_of(serving.device)

        def end(error: Exception) -> None:
            self._senders.close(LAST_SECONDS)
            guard.end(error)

        def observe(sizes: Mapping[int, int]) -> None:
            for requests, times in sizes.items():
                self._senders.put(partial(steps.observe, requests, times=times))
            kept = self._engine.kept
            if reuse is not None and kept is not None:
                self._senders.put(partial(reuse.publish, replace(kept)))

        self._engine.start(observe, Ending(guard.lost, end))

    def execute(self, requests: Sequence[Any]) -> None:
        """Hand the requests to the engine and return at once."""
        for request in requests:
            sender = self._senders.choose()
            sink = ResponseSink(request, self._gauges, sender, streaming=False)
            try:
                inputs = self._read(request)
                if scalar(inputs, "stop"):
                    self._stop(request.request_id())
                    sink.cancelled()
                    continue
                if request.request_id():
                    self._sinks[request.request_id()] = sink
                sink.streaming = is_streaming(inputs)
                generation = read_request(
                    inputs,
                    end_ids=self._end_ids,
                    vocabulary_size=self._vocabulary_size,
                    fresh_seed=secrets.randbits(63),
                    encoder_decoder=self._encoder_decoder,
                    adapters=self._adapters,
                )
                generation = self._complete(generation)
                sink.prompt = shown_prompt(inputs, generation, self._vocabulary_size)
                if generation.form is None:
                    self._engine.submit(generation, sink)
                else:
                    # Up to a second of a schema, seconds of the first one: others do not wait.
                    self._guiding.submit(self._submit_guided, generation, generation.form, sink)
            except Exception as error:  # noqa: BLE001 (the client gets it, and the server lives on)
                sink.fail(error)

    def _submit_guided(self, generation: Request, form: GuideRequest, sink: ResponseSink) -> None:
        """Hand a request over that has a form, once its guide is made."""
        try:
            guided = replace(generation, guide=self._guides.make(form))
            self._engine.submit(guided, sink)
        except Exception as error:  # noqa: BLE001 (as in `execute`)
            sink.fail(error)

    def _read(self, request: Any) -> Tensors:
        if self._arrivals is None:
            return self._settings.inputs(request)
        return self._arrivals.read(self._settings.tensors(request))

    def _stop(self, request_id: str) -> None:
        """End the answer of a request: TensorRT-LLM's `stop`, sent with the id of that request.

        Clients that stop keep reading their stream. Cancelling it would free the slot too, but
        Triton 2.51 never frees an ensemble's request whose stream was cancelled.
        """
        sink = self._sinks.get(request_id)
        if sink is not None:
            sink.stop()

    def finalize(self) -> None:
        """End all threads; Triton has let running requests finish before."""
        self._guiding.shutdown(cancel_futures=True)
        self._engine.stop()
        self._senders.close()
        end_metrics()
