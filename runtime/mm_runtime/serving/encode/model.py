"""What both Triton models with a vision encoder have in common: loading, queue, metrics."""

import logging
import time
from collections.abc import Sequence

from mm_api.metrics import (
    ENCODED_REQUESTS,
    ENCODER_BATCH,
    ENCODER_BUSY_SECONDS,
    ENCODER_FALLBACKS,
    ENCODER_QUEUE_SECONDS,
    ENCODER_SECONDS,
    FEATURE_CACHE_BYTES,
    FEATURE_CACHE_EVICTIONS,
    FEATURE_CACHE_LOOKUPS,
)
from mm_runtime.base.heap import keep_large_pieces
from mm_runtime.serving.encode.disaggregated.client import EncoderClient, FallbackReason
from mm_runtime.serving.encode.disaggregated.dispatcher import EncoderDispatcher
from mm_runtime.serving.encode.disaggregated.hosts import Hosts
from mm_runtime.serving.encode.disaggregated.identity import vision_identity
from mm_runtime.serving.encode.disaggregated.responses import TABLE, ExpectedFeatures
from mm_runtime.serving.encode.encoding import Outputs, encode_requests
from mm_runtime.serving.encode.gpu_features import are_gpu_tensors
from mm_runtime.serving.encode.native_outputs import completion_of
from mm_runtime.serving.encode.queue import EncodeQueue, Results, nothing
from mm_runtime.serving.encode.shares import limit_this_process, lower_priority
from mm_runtime.serving.encode.vision.cache import FeatureCache
from mm_runtime.serving.encode.vision.load import load_encoder
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.gpu_guard import guard_of, loading
from mm_runtime.serving.metrics.families import counters, gauges
from mm_runtime.serving.metrics.histograms import HistogramGauges
from mm_runtime.serving.tensors import Tensors, scalar
from mm_runtime.serving.triton import ModelSettings

logger = logging.getLogger(__name__)

BY = ("own", "encoders")
RESULTS = ("hits", "misses", "shared")


class EncoderGauges:
    """Metrics of one server's encodings; called from any thread."""

    def __init__(self) -> None:
        requests, fallbacks = counters(ENCODED_REQUESTS), counters(ENCODER_FALLBACKS)
        self._by = {name: requests.series({"by": name}) for name in BY}
        self._why = {why: fallbacks.series({"reason": why.value}) for why in FallbackReason}
        self._seconds = HistogramGauges(ENCODER_SECONDS, BY)

    def encoded(self, by: str, requests: int, seconds: float) -> None:
        self._by[by].increment(requests)
        self._seconds.observe(seconds, by)

    def fell_back(self, why: FallbackReason) -> None:
        self._why[why].increment(1)


class CacheGauges:
    """Metrics of one cache; published after each batch by the thread that encodes."""

    def __init__(self, cache: FeatureCache) -> None:
        self._cache = cache
        lookups = counters(FEATURE_CACHE_LOOKUPS)
        self._counters = {name: lookups.series({"result": name}) for name in RESULTS}
        self._counters["evictions"] = counters(FEATURE_CACHE_EVICTIONS).series({})
        self._used = gauges(FEATURE_CACHE_BYTES).series({})

    def publish(self) -> None:
        for name, metric in self._counters.items():
            metric.reach(getattr(self._cache.counts, name))
        self._used.set(self._cache.used_bytes)


MAX_OPEN_REQUESTS = 64
"""Requests that are with encoders at one time: a thread each, which waits. A gateway that lets in
more has most of its requests in the language model."""

MOST_TOGETHER = 8
"""Requests that are encoded together: the language model gets nothing of a batch before its end.
CLIP ViT-L/14-336 encodes 905 images a second in runs of 8 and 851 of 16 (H200); larger towers gain
less by longer runs."""

SENDERS = 4
"""Threads of an encoder's pod that send features: each waits until Triton has copied an image's,
a few milliseconds in which the GPU encodes the next batch."""

_TORCH_TYPES = {"TYPE_FP16": "float16", "TYPE_BF16": "bfloat16"}
"""Triton's name of a type -> torch's: types in which features may leave this process."""


class EncoderModel:
    """A loaded vision encoder, with encoders in other pods before it where the plan has them."""

    def __init__(self, settings: ModelSettings, *, may_offload: bool) -> None:
        """Load the vision engine.

        `may_offload`: the plan's encoders are called first; False in an encoder's own pod.

        Raises:
            ValueError: a text-only engine has no vision part.
        """
        limit_this_process(settings.parameters)
        engine, serving = settings.engine, settings.serving
        if engine.vision is None:
            raise ValueError(f"{engine.root}: the engine has no vision part")
        self.identity = vision_identity(engine.manifest)
        self._completion = completion_of(engine)
        encoders = serving.encoders if may_offload else None
        if encoders or not may_offload:
            keep_large_pieces()
        # Where others encode by plan, the features are theirs to keep.
        limit = 0 if encoders else serving.feature_cache_bytes
        keeps = may_offload and are_gpu_tensors(engine.manifest, serving)
        cache = FeatureCache(limit) if limit else None
        self._cache, self._cache_gauges = cache, CacheGauges(cache) if cache else None
        device = serving.device if engine.vision.may_use_gpu else "CPU"
        # TensorRT's engines run on a GPU, whatever the plan says of torch.
        loaded_on = "CUDA" if engine.vision.uses_tensorrt else device
        with loading("the vision encoder", loaded_on):
            self._own = load_encoder(
                engine,
                engine.vision,
                cache,
                device=serving.device,
                keeps=keeps,
                leave_as=_TORCH_TYPES.get(settings.output_types[TABLE], ""),
            )
        self._guard = guard_of(loaded_on)
        self._dtype = settings.output_dtype(TABLE)
        # An encoder's pod has Triton's own count of its one model; said twice, a sum over the pods
        # of a model would count each image twice.
        self._gauges = EncoderGauges() if may_offload else None
        self._busy = counters(ENCODER_BUSY_SECONDS).series({})
        self._together = HistogramGauges(ENCODER_BATCH)
        self._queued = HistogramGauges(ENCODER_QUEUE_SECONDS)
        shares_cores = may_offload and engine.manifest.plan.engine.traits.runs_checkpoints
        if device == "CUDA":
            shares_cores = False  # the GPU computes; a thread that starts its work waits for none
        own = EncodeQueue(
            self._encode,
            reads=self._own.read,
            together=min(engine.limits.max_batch_size, MOST_TOGETHER),
            begins=lower_priority if shares_cores else nothing,
            waited=self._queued.observe,
            without=self._without,
            after=self._settle,
            senders=0 if may_offload else SENDERS,
        )
        self.queue: EncoderDispatcher | EncodeQueue = own
        """What requests are submitted to."""

        if encoders and self._gauges:
            hosts = Hosts(encoders.addresses)
            client = EncoderClient(
                lambda: hosts.addresses,
                identity=self.identity,
                expected_features=ExpectedFeatures.of(engine.facts, engine.vision, self._dtype),
                timeout_seconds=encoders.timeout_seconds,
                key=encoders.key,
            )
            self.queue = EncoderDispatcher(
                own,
                client=client,
                parallel=min(serving.gateway.max_concurrency, MAX_OPEN_REQUESTS),
                observer=self._gauges,
            )

    def _without(self, inputs: Tensors) -> Outputs:
        return self._completion.without(scalar(inputs, "max_tokens") or 0)

    def _encode(self, requests: Sequence[Tensors]) -> Results:
        began = time.monotonic()
        results = [
            self._completion.complete(one) if one and isinstance(one, dict) else one
            for one in encode_requests(self._own, requests, self._dtype)
        ]
        errors = [one for one in results if isinstance(one, Exception)]
        for error in errors:
            if not isinstance(error, RequestError) and self._guard.lost(error):
                self._guard.end(error)
        encoded = sum(bool(one) and isinstance(one, dict) for one in results)
        if encoded:
            seconds = time.monotonic() - began
            self._busy.increment(seconds)
            self._together.observe(encoded)
            if self._gauges:
                self._gauges.encoded("own", encoded, seconds)
        if self._cache_gauges:
            self._cache_gauges.publish()
        return results

    def _settle(self) -> None:
        if self._cache and self._cache_gauges:
            try:
                self._cache.settle()
            except Exception as error:
                if self._guard.lost(error):
                    self._guard.end(error)
                logger.exception("features are not kept")
            self._cache_gauges.publish()
