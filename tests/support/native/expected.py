"""What the Reference engine answers when features pass through the types of a native engine."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mm_runtime.serving.encode.encoding import encode_requests
from mm_runtime.serving.encode.vision.load import load_encoder
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.generation import read_request
from mm_runtime.serving.preprocess.by_family import load_preprocessor
from support.build_plans import serving_plan
from support.collecting_sink import CollectingSink
from support.families.pipeline import ENCODER_OUTPUTS, Pipeline

TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
FEATURES = ("OUT_PROMPT_EMBEDDING_TABLE", "ENCODER_INPUT_FEATURES")
ANSWER = 16


def rounded(array: NDArray[Any], dtype: str) -> NDArray[np.float32]:
    tensor = torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
    found: NDArray[np.float32] = tensor.to(TYPES[dtype]).float().numpy()
    return found


def answer_ids(pipeline: Pipeline, text: str, dtype: str, **tensors: Any) -> list[int]:
    directory = pipeline.directory
    serving = serving_plan(directory.manifest.fingerprint)
    prepared = load_preprocessor(directory, serving).prepare(
        {
            "QUERY": np.array([[text.encode()]], dtype=np.object_),
            "REQUEST_OUTPUT_LEN": np.array([[ANSWER]], dtype=np.int32),
            **tensors,
        }
    )
    found = {
        "input_ids": prepared.get("INPUT_ID"),
        "input_lengths": prepared["REQUEST_INPUT_LEN"],
        "decoder_input_ids": prepared.get("DECODER_INPUT_ID"),
        "decoder_input_lengths": prepared.get("REQUEST_DECODER_INPUT_LEN"),
        "request_output_len": prepared["REQUEST_OUTPUT_LEN"],
        "end_id": prepared["OUT_END_ID"],
    }
    encoded: dict[str, Any] = {}
    if directory.vision is not None:
        # An engine of bfloat16 takes its pixels in that type, too; those of float16 are sent so.
        wanted = {
            name.lower(): rounded(value, dtype) if name == "PIXEL_VALUES" else value
            for name, value in prepared.items()
        }
        wanted["max_tokens"] = prepared["REQUEST_OUTPUT_LEN"]
        encoder = load_encoder(directory, directory.vision)
        made = encode_requests(encoder, [wanted], np.float32)[0]
        if isinstance(made, RequestError):
            raise made
        assert isinstance(made, dict), made
        encoded = made
    elif "ENCODER_INPUT_FEATURES" in prepared:
        encoded = {
            name: prepared[name] for name in ("ENCODER_INPUT_FEATURES", "ENCODER_OUTPUT_LENGTHS")
        }
    for name, value in encoded.items():
        found[ENCODER_OUTPUTS[name]] = rounded(value, dtype) if name in FEATURES else value
    request = read_request(
        {name: value for name, value in found.items() if value is not None},
        end_ids=pipeline.loaded.end_ids,
        vocabulary_size=pipeline.loaded.vocabulary_size,
        fresh_seed=1,
        encoder_decoder=pipeline.loaded.encoder_decoder,
    )
    sink = CollectingSink()
    pipeline.loaded.engine.submit(request, sink)
    return sink.wait()
