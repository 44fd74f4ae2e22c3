"""Pictures go to the encoders first; what they do not answer this server encodes itself."""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from mm_runtime.engine.encoders.client import EncoderError, Why
from mm_runtime.engine.encoding import Outputs, encode_requests
from mm_runtime.engine.errors import RequestError
from mm_runtime.engine.tensors import Tensors
from mm_runtime.engine.vision.features import RequestEncoder

logger = logging.getLogger(__name__)

Results = list[Outputs | RequestError]


class Asks(Protocol):
    """Gets the features of one request from somewhere else."""

    def ask(self, inputs: Tensors) -> Outputs:
        """Return the features of one request.

        Raises:
            EncoderError: nobody answered.
        """


@dataclass
class Encodings:
    """Who encoded the pictures of how many requests since the start."""

    own: int = 0
    encoders: int = 0
    fallbacks: dict[Why, int] = field(default_factory=lambda: dict.fromkeys(Why, 0))


@dataclass
class EncodersFirst:
    """Encodes the requests of one batch.

    Args:
        own: this server's encoder, which also says what is wrong with a request.
        client: asks the encoders.
        dtype: what features are given out as.
        parallel: requests that are asked about at one time.
    """

    own: RequestEncoder
    client: Asks
    dtype: type[np.floating[Any]]
    parallel: int
    told: Encodings = field(default_factory=Encodings)

    def __post_init__(self) -> None:
        """Start the threads that wait for encoders."""
        self._threads = ThreadPoolExecutor(self.parallel, thread_name_prefix="encoders")

    def __call__(self, requests: Sequence[Tensors]) -> Results:
        """Return the outputs of each request, or what is wrong with it."""
        results: Results = []
        asked: list[int] = []
        for index, inputs in enumerate(requests):
            try:
                if self.own.read(inputs) is not None:
                    asked.append(index)
                results.append({})
            except RequestError as error:
                results.append(error)
        answers = list(self._threads.map(self._ask, [requests[index] for index in asked]))
        left = []
        for index, answer in zip(asked, answers, strict=True):
            if isinstance(answer, Why):
                self.told.fallbacks[answer] += 1
                left.append(index)
            else:
                results[index] = answer
        self.told.encoders += len(asked) - len(left)
        self.told.own += len(left)
        encoded = encode_requests(self.own, [requests[i] for i in left], self.dtype)
        for index, result in zip(left, encoded, strict=True):
            results[index] = result
        return results

    def _ask(self, inputs: Tensors) -> Outputs | Why:
        try:
            return self.client.ask(inputs)
        except EncoderError as error:
            logger.warning("this server encodes a request's pictures: %s: %s", error.why, error)
            return error.why
