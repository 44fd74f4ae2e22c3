"""Adapters, encoder-decoders, and a GPU without memory: the answers are the processor's.

Run with `pytest -m gpu tests/gpu`.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.reference_engine.adapters import AdapterFolder
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.encoder_decoder import EncoderDecoderModel
from mm_runtime.reference_engine.fused.kernels import Kernels
from mm_runtime.reference_engine.fused.opening import open_kernels
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.model import SlotModel
from mm_runtime.reference_engine.prefix_cache import BLOCK
from mm_runtime.serving.device import CPU, open_device
from mm_runtime.serving.generate.request import Request, Sampling
from support.collecting_sink import CollectingSink, submitted
from support.engines import MAX_LENGTH, SLOTS, engine_starter, tiny_checkpoint
from support.families.texts import write
from support.families.words import END
from support.lora_adapters import pair, write_adapter
from support.tiny_llava import CHECKPOINT, VOCABULARY

pytestmark = pytest.mark.gpu

LONG = 4096


def served(model: SlotModel, requests: list[Request], **limits: int) -> list[object]:
    with engine_starter(model)(**limits) as engine:
        sinks = submitted(engine, requests)
        for sink in sinks:
            sink.wait()
        return [sink.ids for sink in sinks]


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> list[AdapterFolder]:
    """Two adapters of the tiny model: one of attention, one of every module, of another rank."""
    facts = inspect(CHECKPOINT, InspectOptions())
    text, root = facts.text, tmp_path_factory.mktemp("adapters")
    hidden, inner = text.hidden_size, text.intermediate_size
    queries, keys = text.attention_heads * text.head_size, text.key_value_heads * text.head_size
    sizes = {
        "self_attn.q_proj": (hidden, queries),
        "self_attn.v_proj": (hidden, keys),
        "self_attn.k_proj": (hidden, keys),
        "self_attn.o_proj": (queries, hidden),
        "mlp.gate_proj": (hidden, inner),
        "mlp.up_proj": (hidden, inner),
        "mlp.down_proj": (inner, hidden),
    }
    found = []
    for uid, (rank, modules) in enumerate(((4, list(sizes)[:2]), (8, list(sizes)))):
        tensors = {}
        for layer in range(text.layers):
            for module in modules:
                source, target = sizes[module]
                name = "base_model.model.model.layers.{layer}.{module}.lora_{side}.weight"
                both = pair(
                    name, rank=rank, source=source, target=target, layer=layer, module=module
                )
                tensors |= {key: value * 0.05 for key, value in both.items()}
        folder = write_adapter(root / str(uid), tensors, rank=rank)
        found.append(AdapterFolder(uid, str(uid), folder, facts))
    return found


def questions() -> list[Request]:
    return [
        Request(
            ids=tuple(range(8 + at, 30 + 3 * at)),
            max_tokens=20,
            end_ids=frozenset(),
            adapter=(0, None, 1)[at % 3],
            sampling=Sampling(top_k=20, seed=at) if at == 4 else Sampling(),
        )
        for at in range(9)
    ]


def tiny(
    device: torch.device, kernels: Kernels | None, adapters: list[AdapterFolder]
) -> LanguageModel:
    return LanguageModel(
        tiny_checkpoint(max_length=512, adapters=adapters, device=device, kernels=kernels)
    )


def test_rows_have_adapters_of_their_own(adapters: list[AdapterFolder]) -> None:
    """Beside rows of another adapter and of none; such a model is computed without kernels."""
    device = open_device("CUDA")
    found = served(tiny(device, open_kernels(device), adapters), questions(), prompt_rows=16)
    wanted = served(tiny(CPU, None, adapters), questions(), prompt_rows=16)
    assert found == wanted
    plain = served(tiny(CPU, None, adapters), [replace(one, adapter=None) for one in questions()])
    changed_by = {questions()[at].adapter for at, one in enumerate(wanted) if one != plain[at]}
    assert changed_by == {0, 1}


@pytest.mark.parametrize("family", ["t5", "bart", "nmt"])
def test_encoder_decoders(family: str, tmp_path: Path) -> None:
    folder = write(family, tmp_path / family)
    requests = [
        Request(
            ids=(*range(5, 12 + at), END),
            decoder_ids=(0,),
            max_tokens=12,
            end_ids=frozenset({END}),
        )
        for at in range(1, 5)
    ]
    found = [
        served(
            EncoderDecoderModel(
                Checkpoint(
                    folder=folder,
                    dtype="float32",
                    slots=SLOTS,
                    family=family,
                    max_length=64,
                    device=device,
                )
            ),
            requests,
        )
        for device in (open_device("CUDA"), CPU)
    ]
    assert found[0] == found[1]


@pytest.fixture
def bounded() -> Iterator[list[float]]:
    yield []
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.usefixtures("bounded")
def test_a_prompt_without_memory_is_read_in_parts(caplog: pytest.LogCaptureFixture) -> None:
    """By torch's own shortage: no request fails, and the answers are the same."""
    device = open_device("CUDA")
    model = LanguageModel(tiny_checkpoint(max_length=LONG, device=device))
    requests = [
        Request(ids=tuple(7 + at % 80 for at in range(length)), max_tokens=6, end_ids=frozenset())
        for length in (3000, 40, 2000)
    ]
    limits = {
        "max_num_tokens": LONG,
        "prompt_rows": LONG,
        "max_input_len": LONG,
        "max_seq_len": LONG,
    }
    wanted = served(model, requests, **limits)
    torch.cuda.empty_cache()
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (24 << 20)) / total)
    with caplog.at_level(logging.WARNING):
        assert served(model, requests, **limits) == wanted
    assert "tried again with" in caplog.text


ROWS, HIDDEN = 20, 128
PROMPT = tuple(range(5, 15)) + tuple(range(VOCABULARY, VOCABULARY + ROWS)) + tuple(range(15, 35))
IMAGE = np.random.default_rng(3).normal(size=(ROWS, HIDDEN)).astype(np.float16)
WAYS = ("modules", "fused")


def loaded(way: str, reuse_bytes: int) -> LanguageModel:
    device = open_device("CUDA")
    more: dict[str, object] = {"kernels": open_kernels(device)} if way == "fused" else {}
    given: dict[str, object] = {
        "folder": CHECKPOINT,
        "family": "llava",
        "dtype": "float32",
        "slots": SLOTS,
        "max_length": MAX_LENGTH,
        "device": device,
        "reuse_bytes": reuse_bytes,
    }
    return LanguageModel(Checkpoint(**given, **more))  # type: ignore[arg-type]


def requested(ids: tuple[int, ...]) -> Request:
    of_rows = np.where(np.array(ids) >= VOCABULARY, 77, 0).astype(np.uint64)
    return Request(ids=ids, table=IMAGE, row_ids=of_rows, max_tokens=20, end_ids=frozenset())


def answers(model: LanguageModel, *turns: tuple[int, ...]) -> list[tuple[list[int], int]]:
    found = []
    with engine_starter(model)(prompt_rows=7) as engine:
        for ids in turns:
            sink = CollectingSink()
            engine.submit(requested(ids), sink)
            found.append((sink.wait(), sink.pieces[-1].reused))
    return found


@pytest.mark.parametrize("way", WAYS)
def test_the_next_turn_is_answered_as_without(way: str) -> None:
    """After another prompt was in the same slot."""
    other = tuple(range(30, 100))
    computed = loaded(way, 0)
    (said, _), _ = answers(computed, PROMPT, other)
    second = (*PROMPT, *said, *range(40, 50))
    expected = [one for one, _ in answers(computed, PROMPT, other, second)]

    found = answers(loaded(way, 8 << 20), PROMPT, other, second)

    known = (len(PROMPT) + len(said) - 1) // BLOCK * BLOCK
    assert [one for one, _ in found] == expected
    assert [reused for _, reused in found] == [0, 0, known]
