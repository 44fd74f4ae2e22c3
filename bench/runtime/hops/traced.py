"""The models of a pod with an encoder, and of one that sends it images, with times of each step.

Loaded by tritonserver's stubs with the packages of the commit that is measured. What computes is
left out: the tower gives out features that it has ready, as one on a GPU hands them to its process,
and the language model reads them and answers their number.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.utils.dlpack
import triton_python_backend_utils as pb_utils

from mm_runtime.serving.encode import model
from mm_runtime.serving.encode.disaggregated import client
from mm_runtime.serving.encode.vision import load
from mm_runtime.serving.send.deferred_response import DeferredResponse
from mm_runtime.serving.triton import ModelSettings

TRACES = Path(os.environ["MM_HOP_TRACES"])
ROWS = int(os.environ["MM_HOP_ROWS"])
WIDTH = int(os.environ["MM_HOP_WIDTH"])
TOWER_SECONDS = float(os.environ.get("MM_HOP_TOWER_SECONDS", "0"))
"""Of an image, in which the processor is idle: so long a GPU encodes."""

_FILE = (TRACES / str(os.getpid())).open("w", buffering=1 << 20)


def note(event: str) -> None:
    """Write what happens now; the clock is the machine's."""
    _FILE.write(f"{event} {time.monotonic_ns()}\n")


def _traced(owner: Any, name: str, before: str, after: str = "") -> None:
    """Note when a function is called and when it has returned."""
    function: Callable[..., Any] = getattr(owner, name)

    def traced(*arguments: Any, **named: Any) -> Any:
        if before:
            note(before)
        try:
            return function(*arguments, **named)
        finally:
            if after:
                note(after)
                if name == "send":  # the last step of a process: nothing waits for its file
                    _FILE.flush()

    setattr(owner, name, traced)


class _Ready:
    """A tower whose features are ready: what remains is to bring them into host memory."""

    def __init__(self, **options: Any) -> None:
        made = torch.randn((1, ROWS, WIDTH), generator=torch.Generator().manual_seed(1))
        features = made.to(torch.bfloat16)
        # A GPU copies what it has made: of this type, where the runner says so, else of float32.
        as_sent = options.get("leave_as") == "bfloat16"
        self._features = features if as_sent else features.float()

    def __call__(self, inputs: Any) -> Any:
        """Return features of one image for each."""
        count = len(next(iter(inputs.values())))
        time.sleep(count * TOWER_SECONDS)
        note("tower")
        copied = self._features.repeat(count, 1, 1)
        note("features")
        return copied if copied.dtype == torch.bfloat16 else copied.numpy()


def _without_a_tower() -> None:
    """Let encoders be loaded as on a GPU, around features that are ready."""
    loading: Any = load
    models: Any = model
    load_encoder = load.load_encoder
    loading.open_runner = lambda *_, **options: _Ready(**options)
    models.load_encoder = lambda *arguments, **options: load_encoder(
        *arguments, **{**options, "device": "CUDA"}
    )


def encoder_model() -> type:
    """Return the model of an encoder's pod."""
    from mm_runtime.repository.models.vision_encoder import TritonPythonModel  # noqa: PLC0415

    _without_a_tower()
    _traced(TritonPythonModel, "execute", "encoder")
    _traced(ModelSettings, "kept_inputs", "", "pixels kept")
    _traced(DeferredResponse, "send", "answer", "answered")
    return TritonPythonModel


def server_model() -> type:
    """Return the model that sends images to an encoder."""
    from mm_runtime.repository.models.multimodal_encoders import (  # noqa: PLC0415
        TritonPythonModel,
    )

    _without_a_tower()
    _traced(TritonPythonModel, "execute", "request")
    _traced(ModelSettings, "kept_inputs", "", "kept")
    _traced(client.EncoderClient, "encode", "thread", "checked")
    _traced(client.EncoderClient, "_infer", "call")
    # Of commits before the channel: tritonclient's.
    older = getattr(client, "InferenceServerClient", None)
    calls = getattr(client, "EncoderChannel", older)
    _traced(calls, "infer", "", "received")
    _traced(client, "checked", "parsed")
    _traced(DeferredResponse, "send", "hand-over", "handed over")
    return TritonPythonModel


class Reader:
    """The model that reads features."""

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Return how many rows came."""
        note("language model")
        responses = []
        for request in requests:
            given = {one.name(): one for one in request.inputs()}
            table = torch.utils.dlpack.from_dlpack(given["OUT_PROMPT_EMBEDDING_TABLE"].to_dlpack())
            rows = np.array([[table.shape[1]]], np.int32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("ROWS", rows)]))
        note("read")
        _FILE.flush()
        return responses

    def finalize(self) -> None:
        """Write what is left."""
        _FILE.flush()
