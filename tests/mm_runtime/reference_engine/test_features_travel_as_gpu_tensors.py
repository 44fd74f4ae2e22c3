"""Features between encoder and language model as tensors of a device; here the device is the CPU.

The same code moves them on a GPU, where `tests/gpu` runs it.
"""

from typing import Any

import numpy as np
import pytest
import torch

from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.serving.device import CPU, Copier
from mm_runtime.serving.encode.hand_over import HandOver
from mm_runtime.serving.encode.placing import placing
from mm_runtime.serving.errors import PoolFullError
from mm_runtime.serving.generate.input_reader import InputReader
from mm_runtime.serving.generate.request import Request
from mm_runtime.serving.tensor_names import HANDED_OVER_ON_GPU, MADE_ON_GPU
from support.build_plans import serving_plan
from support.collecting_sink import CollectingSink
from support.documents import manifest
from support.engines import StartEngine

ROWS = np.linspace(-1, 1, 6 * 8, dtype=np.float32).reshape(1, 6, 8)


class HostTensor:
    """What the Python backend gives out for a tensor of host memory."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    def is_cpu(self) -> bool:
        return True

    def as_numpy(self) -> Any:
        return self.values.numpy()

    def to_dlpack(self) -> Any:
        return torch.utils.dlpack.to_dlpack(self.values)


class GpuTensor(HostTensor):
    """The same of a GPU, as far as it says."""

    def is_cpu(self) -> bool:
        return False


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_features_leave_in_the_engines_dtype(dtype: str) -> None:
    """bfloat16 included, which arrays cannot hold; other outputs stay arrays."""
    outputs = {"OUT_PROMPT_EMBEDDING_TABLE": ROWS, "OUT_PROMPT_VOCAB_SIZE": np.array([[6]])}

    placed = HandOver(CPU, dtype, announced=True).place(outputs)

    wanted = torch.from_numpy(ROWS).to(getattr(torch, dtype))
    assert torch.equal(wanted, placed["OUT_PROMPT_EMBEDDING_TABLE"])
    assert placed["OUT_PROMPT_VOCAB_SIZE"] is outputs["OUT_PROMPT_VOCAB_SIZE"]
    assert placed[MADE_ON_GPU].all()


def test_questions_without_images_are_left_alone() -> None:
    assert HandOver(CPU, "float32", announced=True).place({}) == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_features_are_copied_as_they_arrive(dtype: torch.dtype) -> None:
    """Their memory is Triton's again once the call returns; other inputs are arrays as ever."""
    values = torch.from_numpy(ROWS.copy()).to(dtype)
    wanted = values.clone()
    tensors = {
        "prompt_embedding_table": GpuTensor(values),
        HANDED_OVER_ON_GPU: HostTensor(torch.tensor([[True]])),
        "input_lengths": HostTensor(torch.tensor([[3]])),
    }

    read = InputReader(Copier(CPU)).read(tensors)
    values.zero_()

    assert torch.equal(wanted, read["prompt_embedding_table"])
    assert read["input_lengths"].tolist() == [[3]]
    assert HANDED_OVER_ON_GPU not in read


def test_features_that_missed_the_pool_are_refused() -> None:
    """Handed over on the GPU, arrived in host memory: the pool was full."""
    tensors = {
        "prompt_embedding_table": HostTensor(torch.from_numpy(ROWS.copy())),
        HANDED_OVER_ON_GPU: HostTensor(torch.tensor([[True]])),
    }

    with pytest.raises(PoolFullError, match=r"spec\.runtime\.memoryPools\.cuda"):
        InputReader(Copier(CPU)).read(tensors)


def test_clients_may_send_tables_from_host_memory() -> None:
    """What no encoder handed over was never in the pool."""
    sent = HostTensor(torch.from_numpy(ROWS.copy()))

    read = InputReader(Copier(CPU)).read({"prompt_embedding_table": sent})

    assert torch.equal(torch.from_numpy(ROWS), read["prompt_embedding_table"])


def test_on_the_processor_features_stay_arrays() -> None:
    """The encoder's process without a GPU does not even load torch for it."""

    def done(_: object) -> None:
        """Take nothing."""

    engine = manifest()
    assert placing(serving_plan(engine.fingerprint), engine)({}, done) is done


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"device CUDA.*cannot use a GPU.*spec\.runtime\.gpu\.count"
    ):
        placing(serving_plan(manifest().fingerprint, device="CUDA"), manifest())


@pytest.mark.parametrize("given", [ROWS, torch.from_numpy(ROWS)], ids=["array", "tensor"])
def test_tensorrts_backend_gets_features_alone(given: Any) -> None:
    """It has no input that would say where they were; they are of the engine's type."""
    placed = HandOver(CPU, "float16", announced=False).place({"OUT_PROMPT_EMBEDDING_TABLE": given})

    assert placed.keys() == {"OUT_PROMPT_EMBEDDING_TABLE"}
    assert torch.equal(
        torch.from_numpy(ROWS).to(torch.float16), placed["OUT_PROMPT_EMBEDDING_TABLE"]
    )


def test_a_tensor_is_read_as_an_array_is(
    language_model: LanguageModel, start_engine: StartEngine
) -> None:
    table = np.random.default_rng(2).normal(size=(5, language_model.hidden_size))
    size = language_model.vocabulary_size
    answers = []
    for rows in (table.astype(np.float32), torch.from_numpy(table.astype(np.float32))):
        sink = CollectingSink()
        with start_engine() as engine:
            ids = (2, *(size + at for at in range(5)), 10, 11)
            engine.submit(Request(ids=ids, table=rows, max_tokens=12, end_ids=frozenset()), sink)
            answers.append(sink.wait())

    assert answers[0] == answers[1]
