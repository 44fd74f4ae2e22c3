"""The ensemble answers or refuses with a reason, and returns what was requested."""

import base64
import queue
import threading
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from numpy.typing import NDArray
from PIL import Image

from mm_runtime.serving.generate.generation import ANSWERS
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from support.cases import cases
from support.ensemble import DEADLINE_SECONDS, Ensemble, EnsembleError
from support.served import Served
from support.tiny_llava import CHECKPOINT, IMAGES, VOCABULARY, Sample, samples

pytestmark = pytest.mark.triton

RED_SQUARE = IMAGES / "red-square.png"
QUESTION = "What is in the image?"


def _pixels(*names: str) -> NDArray[np.uint8]:
    return np.stack([np.asarray(Image.open(IMAGES / name)) for name in names])[np.newaxis]


@pytest.mark.parametrize(
    "sample", [pytest.param(sample, id=sample.id) for sample in samples()[::2]]
)
def test_samples(ensemble: Ensemble, sample: Sample) -> None:
    pixels = _pixels(sample.image.name)
    for layout in (pixels, np.moveaxis(pixels, -1, 2)):
        assert sample.answer == ensemble.query(sample.question, image_bytes_input=layout).text


def test_preprocessed_image(ensemble: Ensemble) -> None:
    """Pixel values that the client normalised itself, as upstream's client sends them for LLaVA."""
    preprocess = SquareProcessor.from_folder(CHECKPOINT)
    values = preprocess.values_of([Image.open(RED_SQUARE)])[np.newaxis].astype(np.float16)
    complete = "USER: <image>\nWhat is in the image? ASSISTANT:"
    for text in (QUESTION, complete):
        for layout in (values, np.moveaxis(values, 2, -1)):
            assert ensemble.query(text, image_input=layout).text == "a red square"


def test_log_probabilities_and_logits(ensemble: Ensemble) -> None:
    pixels = _pixels(RED_SQUARE.name)
    outputs = ensemble.query(
        QUESTION,
        image_bytes_input=pixels,
        return_log_probs=True,
        return_generation_logits=True,
    ).outputs[0]
    log_probs = outputs["output_log_probs"]
    assert log_probs.shape == (1, 1, 3)
    assert outputs["cum_log_probs"][0, 0] == pytest.approx(float(log_probs.sum()), abs=1e-5)
    assert outputs["generation_logits"].shape == (1, 1, 3, VOCABULARY)


def _url(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode()


def _refused_pixels(images: int) -> object:
    return np.zeros((1, images, 60, 60, 3), dtype=np.uint8)


@cases(
    "text values message",
    {
        "count": ("<image> <image>", {"image_bytes_input": _refused_pixels(1)}, "2 <image>"),
        "http URL": ("x", {"image_url_input": "http://127.0.0.1/b.png"}, "allowedHosts"),
        "empty": ("x", {"image_url_input": _url(b"")}, "the image is empty"),
        "wrong size": (
            "x",
            {"image_input": np.zeros((1, 1, 3, 28, 28), np.float16)},
            "expected \\[images, 3, 56, 56\\]",
        ),
        "id of text": ("x", {"prompt_table_extra_id": 0}, "got 0, the id of text"),
        "none": ("x", {"image_input": np.zeros((1, 0, 3, 56, 56), np.float16)}, "no images"),
        "top_p": ("x", {"top_p": 2.0}, "top_p is 2.0"),
        "end token past the vocabulary": (
            "x",
            {"end_id": VOCABULARY, "min_tokens": 2},
            f"end_id is {VOCABULARY}; a token of the model",
        ),
        "pad token": ("x", {"pad_id": 10**6}, "pad_id is 1000000"),
    },
)
def test_error_reaches_the_client(
    ensemble: Ensemble, text: str, values: dict[str, object], message: str
) -> None:
    with pytest.raises(EnsembleError, match=message):
        ensemble.query(text, **values)
    assert "i answer questions about shapes" == ensemble.query("Hello!").text  # noqa: SIM300


Response = dict[str, NDArray[Any]]
TOKENS = 200
STREAMS = 8
TYPES = {"BOOL": np.bool_, "INT32": np.int32}


def query(
    served: Served, *outputs: str, streaming: bool = True, tokens: int = TOKENS
) -> list[Response]:
    values = {
        "input_ids": ("INT32", [5, 6, 7]),
        "input_lengths": ("INT32", [3]),
        "request_output_len": ("INT32", [tokens]),
        "end_id": ("INT32", [-1]),
        "return_log_probs": ("BOOL", [True]),
        "streaming": ("BOOL", [streaming]),
    }
    inputs = []
    for name, (kind, value) in values.items():
        array = np.array([value], dtype=TYPES[kind])
        inputs.append(triton.InferInput(name, list(array.shape), kind))
        inputs[-1].set_data_from_numpy(array)
    came: queue.Queue[tuple[Any, Any]] = queue.Queue()
    found: list[Response] = []
    with triton.InferenceServerClient(served.grpc_url) as client:
        client.start_stream(callback=lambda result, error: came.put((result, error)))
        client.async_stream_infer(
            "tensorrt_llm",
            inputs,
            outputs=[triton.InferRequestedOutput(name) for name in outputs] or None,
            enable_empty_final_response=True,
        )
        while True:
            result, error = came.get(timeout=DEADLINE_SECONDS)
            assert error is None, error
            response = result.get_response()
            if response.outputs:
                found.append({one.name: result.as_numpy(one.name) for one in response.outputs})
            if response.parameters["triton_final_response"].bool_param:
                return found


def tokens_of(response: Response) -> list[int]:
    tokens: list[int] = response["output_ids"][0, 0, : response["sequence_length"].item()].tolist()
    return tokens


@pytest.mark.parametrize("streaming", [False, True], ids=["at-once", "streamed"])
@pytest.mark.parametrize(
    "named", [(), ("output_ids", "sequence_length"), ("is_last",)], ids=["all", "two", "one"]
)
def test_outputs_are_those_that_were_named(
    served: Served, named: tuple[str, ...], *, streaming: bool
) -> None:
    found = query(served, *named, streaming=streaming, tokens=6)
    assert {frozenset(named or ANSWERS)} == {frozenset(response) for response in found}


def test_tokens_come_once_and_in_order(served: Served) -> None:
    """Eight streams at once, faster than they are sent: tokens, those before, values, the end."""
    expected = tokens_of(query(served, streaming=False)[0])
    answers: list[list[Response]] = []
    threads = [
        threading.Thread(target=lambda: answers.append(query(served))) for _ in range(STREAMS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    assert (len(expected), len(answers)) == (TOKENS, STREAMS)
    for responses in answers:
        so_far: list[int] = []
        for number, response in enumerate(responses, start=1):
            new = tokens_of(response)
            assert (so_far or [-1]) == response["previous_ids"][0, 0].tolist()
            assert len(new) == response["output_log_probs"].shape[-1]
            assert (number == len(responses)) == response["is_last"].item()
            so_far += new
        assert expected == so_far
