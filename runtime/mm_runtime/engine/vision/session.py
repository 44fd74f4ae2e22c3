"""One run of a vision engine, whatever runs it: named arrays in, features out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from mm_runtime.engine.vision.cache import FeatureCache


class VisionSession:
    """An ONNX Runtime session on CPU that cuts large batches into several runs."""

    def __init__(
        self,
        model: Path,
        *,
        max_batch_size: int,
        threads: int = 1,
        cache: FeatureCache | None = None,
    ) -> None:
        """Load the model.

        Args:
            model: its first size of every input is the batch.
            max_batch_size: entries in one run at most.
            threads: processor threads of one run.
            cache: features of entries seen before; None encodes everything.
        """
        self._cache = cache
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # warnings on unused initialisers of exports help nobody
        options.intra_op_num_threads = threads
        # Idle threads would spin on cores that the language model needs.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session: Any = onnxruntime.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"]
        )
        self._max_batch_size = max_batch_size

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Return features float32 [batch, rows, hidden] of inputs [batch, ...]."""
        return self._run(inputs) if self._cache is None else self._cache.through(inputs, self._run)

    def _run(self, inputs: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        length = len(next(iter(inputs.values())))
        runs = [
            self._session.run(
                ["features"],
                {name: array[at : at + self._max_batch_size] for name, array in inputs.items()},
            )[0]
            for at in range(0, length, self._max_batch_size)
        ]
        features: NDArray[np.float32] = np.concatenate(runs)
        return features
