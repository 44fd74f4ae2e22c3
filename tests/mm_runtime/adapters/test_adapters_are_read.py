"""LoRA adapters are looked at with the checkpoint: what they change, or why they do not fit."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mm_api.documents.model_facts import InspectReason, InspectResult
from mm_runtime.adapters.check import check_names
from mm_runtime.cli import main
from mm_runtime.engine_build.commands import verify_weights
from mm_runtime.errors import PermanentError
from support.cases import cases
from support.lora_adapters import LLAMA, pair, write_adapter
from support.trtllm_sites import write_model

HIDDEN = 4096


@pytest.fixture(autouse=True)
def layers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint has no weights but those of layers, which its class would refuse."""
    monkeypatch.setattr(verify_weights, "refuse_other_class", lambda *_: None)


def adapter(folder: Path, module: str, *, rank: int = 4, hidden: int = HIDDEN) -> Path:
    tensors = pair(LLAMA, rank=rank, source=hidden, target=HIDDEN, module=module)
    return write_adapter(folder, tensors, rank=rank)


def inspected(folder: Path, *adapters: str) -> tuple[int, InspectResult]:
    checkpoint, message = folder / "checkpoint", folder / "message"
    if not checkpoint.exists():
        write_model(checkpoint, "llava", inspected=True)
    given = [word for one in adapters for word in ("--adapter", one)]
    code = main(["inspect", "--source", str(checkpoint), *given, "--termination-log", str(message)])
    return code, InspectResult.from_json(message.read_text())


def test_facts_say_what_engines_must_be_built_for(tmp_path: Path) -> None:
    one = adapter(tmp_path / "one", "self_attn.q_proj")
    two = adapter(tmp_path / "two", "self_attn.v_proj", rank=8)
    code, result = inspected(tmp_path, f"one={one}", f"two={two}")
    assert (code, result.error) == (0, None)
    assert result.facts is not None
    lora = result.facts.lora
    assert lora is not None

    assert [one.name for one in lora.adapters] == ["one", "two"]
    assert len({one.source_digest for one in lora.adapters}) == 2
    assert (lora.modules, lora.rank) == ({"llm": ["attn_q", "attn_v"]}, 8)


def test_a_checkpoint_alone_has_no_adapters(tmp_path: Path) -> None:
    _, result = inspected(tmp_path)
    assert result.facts is not None
    assert result.facts.lora is None


def pickled(folder: Path) -> Path:
    tensors = pair(LLAMA, rank=4, source=HIDDEN, target=HIDDEN, module="self_attn.q_proj")
    return write_adapter(folder, tensors, rank=4, pickle=True)


def without_rank(folder: Path) -> Path:
    written = adapter(folder, "self_attn.q_proj")
    (written / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    return written


def with_dora(folder: Path) -> Path:
    written = adapter(folder, "self_attn.q_proj")
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_dora": True}
    (written / "adapter_config.json").write_text(json.dumps(config))
    return written


def half(folder: Path) -> Path:
    tensors = pair(LLAMA, rank=4, source=HIDDEN, target=HIDDEN, module="self_attn.q_proj")
    return write_adapter(folder, dict([tensors.popitem()]), rank=4)


def of_another_rank(folder: Path) -> Path:
    tensors = pair(LLAMA, rank=4, source=HIDDEN, target=HIDDEN, module="self_attn.q_proj")
    return write_adapter(folder, tensors, rank=2)


def not_finite(folder: Path) -> Path:
    tensors = pair(LLAMA, rank=4, source=HIDDEN, target=HIDDEN, module="self_attn.q_proj")
    name, matrix = tensors.popitem()
    matrix[1, 1] = float("nan")
    return write_adapter(folder, tensors | {name: matrix}, rank=4)


@cases(
    "make words",
    {
        "hidden-size": (
            lambda folder: adapter(folder, "self_attn.q_proj", hidden=5120),
            "was made for another model",
        ),
        "pickle": (pickled, "is a pickle (adapter_model.bin)"),
        "rank": (without_rank, "has r = None"),
        "dora": (with_dora, "uses use_dora"),
        "half": (half, "has not both matrices of one rank"),
        "another-rank": (of_another_rank, "says that the rank is 2"),
        "nan": (not_finite, "LoRA adapter a has NaN or infinity in 1 of its"),
        "missing": (lambda folder: folder, "does not exist"),
    },
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, make: Callable[[Path], Path], words: str
) -> None:
    """Known before any GPU is requested, with the name of the adapter's file or source."""
    code, result = inspected(tmp_path, f"a={make(tmp_path / 'adapter')}")
    assert code == 3
    assert result.error is not None
    assert result.error.reason == InspectReason.ADAPTER_REFUSED
    assert words in result.error.message


def test_names_that_the_server_does_not_read_are_refused(tmp_path: Path) -> None:
    """By the adapter and the tensor, before a GPU is taken: vLLM would end with it."""
    module = "self_attn.q_proj"
    plain = pair(LLAMA, rank=1, source=8, target=8, module=module)
    check_names("one", write_adapter(tmp_path / "plain", plain, rank=1))
    named = {name.replace(".weight", ".default.weight"): one for name, one in plain.items()}
    with pytest.raises(PermanentError, match=r"LoRA adapter one: .*default\.weight is not a name"):
        check_names("one", write_adapter(tmp_path / "named", named, rank=1))
