"""LoRA adapters in the Reference engine: each row of a batch answers as transformers with peft.

The adapters are written by peft, and the expected answers come from a model with the adapter merged
into its weights: no code is shared with the engine's mixed batches but the matrices themselves.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from transformers.generation import GenerationMixin

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.adapters.check import check_adapter
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.reference_engine.adapters import AdapterFolder
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.cross_attention import CrossAttentionModel
from mm_runtime.reference_engine.encoder_decoder import KINDS as TEXTS
from mm_runtime.reference_engine.encoder_decoder import EncoderDecoderModel
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.model import SlotModel
from mm_runtime.reference_engine.rotated import RotatedLanguageModel
from mm_runtime.serving.generate.request import Request
from support.collecting_sink import answers_of
from support.engines import engine_starter
from support.families import images, texts
from support.families.expected import KINDS
from support.families.texts import AUDIO_POSITIONS, MEL_BINS
from support.families.words import END, SIZE

STRENGTH = 1.2
"""Spread of the matrices: strong enough that every adapter changes the answers."""


def write_peft(model: Any, folder: Path, targets: list[str] | str, *, rank: int, seed: int) -> Path:
    """Save an adapter of random matrices for a model, which is as before afterwards."""
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules=targets,
        use_rslora=bool(seed % 2),
        init_lora_weights=False,
    )
    with _older_names():
        adapted: Any = get_peft_model(model, config)
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in adapted.named_parameters():
        if "lora_" in name:
            values = torch.randn(tensor.shape, generator=generator)
            tensor.data.copy_(values * STRENGTH / tensor.shape[1] ** 0.5)
    adapted.save_pretrained(folder)
    adapted.unload()
    return folder


def merged(model: Any, folder: Path) -> Any:
    """Return a model with an adapter's matrices in its own; the model given is used up."""
    with _older_names():
        loaded: Any = PeftModel.from_pretrained(model, str(folder))
    return loaded.merge_and_unload().eval()


@contextmanager
def _older_names() -> Iterator[None]:
    """Let peft 0.21 request a property that transformers 5.23 calls by another name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated")
        yield


SLOTS = 3
LENGTH = 96
ANSWER = 16
REQUESTED = (0, None, 1, 1, None, 0, 2, 0)
"""Adapters of the requests: in every batch of three rows at least two different ones."""

ATTENTION = ["q_proj", "v_proj"]
EVERYTHING = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
OPT = ["q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"]
BLOCKS = {"t5", "flan-t5", "mt5", "byt5"}
"""Families whose layers are T5's blocks."""


def _targets(family: str, *, complete: bool) -> str:
    if family in BLOCKS:
        inside = r"(SelfAttention|EncDecAttention|DenseReluDense)"
        matrices = "q|k|v|o|wi|wi_0|wi_1|wo" if complete else "q|v"
        return rf".*block\.\d+\.layer\.\d\.{inside}\.({matrices})"
    modules = EVERYTHING if complete else ATTENTION
    if complete and family in {*TEXTS, "blip2-opt"}:
        modules = OPT
    inside = r"((self_attn|encoder_attn|mlp)\.)?"
    return rf"(?!.*(vision|visual)).*layers\.\d+\.{inside}({'|'.join(modules)})"


def _complete(family: str, folder: Path) -> Any:
    if family == "vila":
        return transformers.AutoModelForCausalLM.from_pretrained(folder / "llm").eval()
    kind = KINDS.get(family) or TEXTS[family]
    complete: Any = getattr(transformers, kind).from_pretrained(folder).eval()
    return complete.language_model if family == "blip2-opt" else complete


def _model(family: str, folder: Path, adapters: list[AdapterFolder]) -> SlotModel:
    checkpoint = Checkpoint(
        folder=folder,
        family=family,
        dtype="float32",
        slots=SLOTS,
        max_length=LENGTH,
        adapters=adapters,
    )
    if family in TEXTS:
        return EncoderDecoderModel(checkpoint)
    if family == "mllama":
        return CrossAttentionModel(checkpoint)
    kind = RotatedLanguageModel if family == "qwen2-vl" else LanguageModel
    return kind(checkpoint)


def _requests(family: str, complete: Any) -> list[Request]:
    rng = np.random.default_rng(5)
    start = complete.generation_config.decoder_start_token_id
    if start is None and family in BLOCKS:  # transformers keeps T5's with its configuration
        start = complete.config.decoder_start_token_id
    requests = []
    for adapter in REQUESTED:
        ids = tuple(rng.integers(5, SIZE - 8, int(rng.integers(3, 30))).tolist())
        audio = rng.normal(size=(2 * AUDIO_POSITIONS, MEL_BINS)).astype(np.float32)
        requests.append(
            Request(
                ids=() if family == "whisper" else ids,
                features=audio if family == "whisper" else None,
                decoder_ids=(start, 6) if family in TEXTS else (),
                adapter=adapter,
                max_tokens=ANSWER,
                end_ids=frozenset({END}),
            )
        )
    return requests


def _expected(model: Any, request: Request) -> list[int]:
    ids = torch.tensor([request.ids])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if request.features is not None:
        inputs = {"input_features": torch.from_numpy(request.features.T.copy())[None]}
    if request.decoder_ids:
        inputs["decoder_input_ids"] = torch.tensor([request.decoder_ids])
    found = GenerationMixin.generate(
        model, **inputs, max_new_tokens=request.max_tokens, do_sample=False
    )[0].tolist()
    answer: list[int] = found[len(request.decoder_ids or request.ids) :]
    return answer[: answer.index(END)] if END in answer else answer


def _folders(
    family: str, checkpoint: Path, facts: ModelFacts, folder: Path
) -> dict[int, AdapterFolder]:
    complete, made = _complete(family, checkpoint), {}
    for uid, rank in enumerate((4, 2, 8)):
        targets = _targets(family, complete=uid == 1)
        written = write_peft(complete, folder / f"a{uid}", targets, rank=rank, seed=uid)
        made[uid] = AdapterFolder(uid, f"a{uid}", written, facts)
    return made


@pytest.mark.parametrize(
    "family",
    [
        "llava",
        "t5",
        *(
            pytest.param(family, marks=pytest.mark.slow)
            for family in sorted({*KINDS, *TEXTS, "vila"} - {"llava", "t5"})
        ),
    ],
)
def test_rows_use_their_own_adapters(tmp_path: Path, family: str) -> None:
    write = texts.write if family in TEXTS else images.write
    checkpoint = write(family, tmp_path / "checkpoint")
    facts = inspect(checkpoint, InspectOptions())
    adapters = _folders(family, checkpoint, facts, tmp_path)
    for one in adapters.values():
        check_adapter(one.name, one.folder, facts)  # as an inspection does
    wholes: dict[int | None, Any] = {
        uid: merged(_complete(family, checkpoint), one.folder) for uid, one in adapters.items()
    }
    wholes[None] = _complete(family, checkpoint)
    requests = _requests(family, wholes[None])
    expected = [_expected(wholes[request.adapter], request) for request in requests]
    base = [_expected(wholes[None], request) for request in requests]
    pairs = zip(REQUESTED, expected, base, strict=True)
    assert {uid for uid, one, other in pairs if one != other} == set(adapters)  # each one matters

    model = _model(family, checkpoint, list(adapters.values()))
    with engine_starter(model)(max_batch_size=SLOTS, max_seq_len=64, max_num_tokens=4) as engine:
        assert expected == answers_of(engine, requests)
