"""Triton model `multimodal_encoders`; what it does is in mm_runtime.engine.encoding."""

import os
from collections.abc import Sequence
from typing import Any

from mm_runtime.engine.cache_gauges import CacheGauges
from mm_runtime.engine.encoding import encode_requests
from mm_runtime.engine.gpu_share import limit_this_process
from mm_runtime.engine.triton import ModelSettings, refuse, respond
from mm_runtime.engine.vision.cache import FeatureCache
from mm_runtime.engine.vision.load import load_encoder


class TritonPythonModel:
    """Pixel values -> prompt embedding table, several requests in one run."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the vision engine; a text-only engine has none."""
        self._settings = ModelSettings(args)
        limit_this_process(self._settings.parameters)
        self._dtype = self._settings.output_dtype("OUT_PROMPT_EMBEDDING_TABLE")
        engine = self._settings.engine
        if engine.vision is None:
            raise ValueError(f"{engine.root}: the engine has no vision part")
        limit = self._settings.serving.feature_cache_bytes
        verify = bool(os.environ.get("MM_VERIFY_FEATURE_CACHE"))
        cache = FeatureCache(limit, verify=verify) if limit else None
        self._gauges = CacheGauges(cache) if cache else None
        self._encoder = load_encoder(engine, engine.vision, cache)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Encode the pictures of all requests together."""
        try:
            inputs = [self._settings.inputs(request) for request in requests]
            results = encode_requests(self._encoder, inputs, self._dtype)
        except Exception as error:  # noqa: BLE001 (the clients get it, and the server lives on)
            return [refuse(error, request.request_id()) for request in requests]
        if self._gauges:
            self._gauges.publish()
        return [
            refuse(one, request.request_id()) if isinstance(one, Exception) else respond(one)
            for request, one in zip(requests, results, strict=True)
        ]
