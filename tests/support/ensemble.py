"""A gRPC client of the ensemble, as existing clients of TensorRT-LLM's Triton models write it."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import tritonclient.grpc as triton
from numpy.typing import NDArray
from tritonclient.utils import np_to_triton_dtype

DEADLINE_SECONDS = 180
TYPES: dict[str, type[np.generic]] = {
    **dict.fromkeys(("audio_lengths_input", "max_tokens", "min_tokens", "top_k"), np.int32),
    **dict.fromkeys(("end_id", "pad_id", "beam_width", "num_draft_tokens"), np.int32),
    **dict.fromkeys(("temperature", "top_p", "length_penalty", "repetition_penalty"), np.float32),
    **dict.fromkeys(("presence_penalty", "frequency_penalty"), np.float32),
    **dict.fromkeys(("embedding_bias_weights", "video_seconds_input"), np.float32),
    **dict.fromkeys(("random_seed", "prompt_table_extra_id", "lora_task_id"), np.uint64),
    **dict.fromkeys(("stream", "exclude_input_in_output", "return_log_probs"), np.bool_),
    **dict.fromkeys(("return_context_logits", "return_generation_logits"), np.bool_),
    "image_input": np.float16,
    **dict.fromkeys(("image_bytes_input", "video_bytes_input"), np.uint8),
}


class EnsembleError(Exception):
    """What the server said instead of an answer."""


@dataclass
class Answer:
    """Everything one request got back."""

    pieces: list[str] = field(default_factory=list)
    outputs: list[dict[str, NDArray[Any]]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Ensemble:
    """One gRPC stream; one request at a time."""

    def __init__(self, url: str, model: str = "ensemble") -> None:
        self._model = model
        self._client = triton.InferenceServerClient(url)
        self._responses: queue.Queue[tuple[Any, Any]] = queue.Queue()
        self._client.start_stream(
            callback=lambda result, error: self._responses.put((result, error))
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.stop_stream(cancel_requests=True)
        self._client.close()

    def query(
        self, text: str, *, on_piece: Callable[[str], None] | None = None, **values: object
    ) -> Answer:
        self.send(text, **values)
        answer = Answer()
        while True:
            result, error = self._responses.get(timeout=DEADLINE_SECONDS)
            if error is not None:
                raise EnsembleError(str(error))
            response = result.get_response()
            if len(response.outputs):
                outputs = {out.name: result.as_numpy(out.name) for out in response.outputs}
                answer.outputs.append(outputs)
                answer.pieces.append(outputs["text_output"].reshape(-1)[0].decode())
                if on_piece is not None:
                    on_piece(answer.pieces[-1])
            if response.parameters["triton_final_response"].bool_param:
                return answer

    def wait_for_a_piece(self) -> None:
        _, error = self._responses.get(timeout=DEADLINE_SECONDS)
        if error is not None:
            raise EnsembleError(str(error))

    def send(self, text: str, **values: object) -> None:
        values = {"max_tokens": 24, **values}
        inputs = [_text("text_input", [text])]
        url = values.pop("image_url_input", None)
        if url is not None:
            inputs.append(_text("image_url_input", [url] if isinstance(url, str) else url))
        for name in ("stop_words", "bad_words", "embedding_bias_words", "cache_salt"):
            words = values.pop(name, None)
            if words is not None:
                inputs.append(_text(name, [words] if isinstance(words, str) else words))
        inputs += [_tensor(name, value) for name, value in values.items()]
        self._client.async_stream_infer(self._model, inputs, enable_empty_final_response=True)


def query_all(url: str, questions: list[tuple[str, dict[str, object]]]) -> list[Answer]:
    def query(question: tuple[str, dict[str, Any]]) -> Answer:
        text, values = question
        with Ensemble(url) as ensemble:
            return ensemble.query(text, on_piece=None, **values)

    with ThreadPoolExecutor(len(questions)) as clients:
        return list(clients.map(query, questions, timeout=DEADLINE_SECONDS))


def _text(name: str, values: Any) -> triton.InferInput:
    tensor = triton.InferInput(name, [1, len(values)], "BYTES")
    encoded = [value.encode() if isinstance(value, str) else value for value in values]
    tensor.set_data_from_numpy(np.array([encoded], dtype=np.object_))
    return tensor


def _tensor(name: str, value: object) -> triton.InferInput:
    array = np.asarray(value, dtype=TYPES[name])
    array = array.reshape(1, 1) if array.ndim == 0 else array
    tensor = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    tensor.set_data_from_numpy(array)
    return tensor


def order_of_streams(url: str, model: str, streams: int) -> list[int]:
    """Return whose each piece is, of answers of 400 tokens that are requested together."""
    order: list[int] = []
    # Connecting takes about as long as 100 tokens: without waiting, the first could end before.
    connected = threading.Barrier(streams, timeout=DEADLINE_SECONDS)
    tokens = {"end_id": -1, "min_tokens": 400, "max_tokens": 400, "stream": True}

    def query(number: int) -> None:
        with Ensemble(url, model) as ensemble:
            connected.wait()
            ensemble.query("Hello!", on_piece=lambda _: order.append(number), **tokens)

    with ThreadPoolExecutor(streams) as clients:
        list(clients.map(query, range(streams), timeout=DEADLINE_SECONDS))
    return order
