"""The same model without Triton and without HTTP: the functions of its Triton models, called."""

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.reference_engine.load import load_engine
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.encoding import encode_requests
from mm_runtime.serving.encode.vision.load import load_encoder
from mm_runtime.serving.generate.generation import read_request
from mm_runtime.serving.generate.request import Piece
from mm_runtime.serving.preprocess.preprocessing import Preprocessor

_DEADLINE_SECONDS = 60


@dataclass
class TimedSink:
    """Notes when each piece of one answer came."""

    times: list[float] = field(default_factory=list)
    error: Exception | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def send(self, piece: Piece) -> None:
        """Note the time of a piece."""
        self.times.append(time.perf_counter())
        if piece.finish is not None:
            self.ended.set()

    def fail(self, error: Exception) -> None:
        """Keep the error."""
        self.error = error
        self.ended.set()

    def cancelled(self) -> None:
        """End."""
        self.ended.set()

    def is_cancelled(self) -> bool:
        """No one leaves."""
        return False


class InProcess:
    """Preprocessing, vision encoder and language model of an engine in this process."""

    def __init__(self, engine_dir: Path, serving: ServingPlan) -> None:
        directory = EngineDirectory.open(engine_dir)
        assert directory.vision is not None
        self._preprocessor = Preprocessor.load(directory, serving)
        self._encoder = load_encoder(directory, directory.vision)
        self._loaded = load_engine(
            directory,
            max_queue_size=serving.max_queue_size,
            cancellation_check_seconds=0.02,
        )
        self._loaded.engine.start()

    def query(
        self, image: Path, question: str, max_tokens: int, *, endless: bool = False
    ) -> list[float]:
        """Answer greedily, `endless` past end tokens; return the seconds to each piece."""
        begin = time.perf_counter()
        pixels = np.asarray(Image.open(image).convert("RGB"))
        prepared = self._preprocessor.prepare(
            {
                "QUERY": np.array([[question.encode()]], dtype=np.object_),
                "IMAGE_BYTES": pixels[np.newaxis, np.newaxis],
                "REQUEST_OUTPUT_LEN": np.array([[max_tokens]], dtype=np.int32),
            }
        )
        encoded = encode_requests(
            self._encoder, [{"pixel_values": prepared["PIXEL_VALUES"]}], np.float32
        )[0]
        assert isinstance(encoded, dict)
        request = read_request(
            {
                "input_ids": prepared["INPUT_ID"],
                "input_lengths": prepared["REQUEST_INPUT_LEN"],
                "request_output_len": prepared["REQUEST_OUTPUT_LEN"],
                "end_id": np.array([[-1]], np.int32) if endless else prepared["OUT_END_ID"],
                "prompt_embedding_table": encoded["OUT_PROMPT_EMBEDDING_TABLE"],
                "runtime_top_k": np.array([[1]], dtype=np.int32),
            },
            end_ids=self._loaded.end_ids,
            vocabulary_size=self._loaded.vocabulary_size,
            fresh_seed=1,
        )
        sink = TimedSink()
        self._loaded.engine.submit(request, sink)
        assert sink.ended.wait(_DEADLINE_SECONDS), "no answer"
        if sink.error is not None:
            raise sink.error
        return [moment - begin for moment in sink.times]

    def close(self) -> None:
        """End the engine's thread."""
        self._loaded.engine.stop()
