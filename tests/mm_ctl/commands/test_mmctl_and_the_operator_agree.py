"""`mmctl plan --checkpoint` and the operator's inspect Job give one verdict and one count."""

import json
import shutil
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import pytest

from mm_api.documents.model_facts import InspectResult
from mm_api.documents.model_plan import ModelPlan
from mm_ctl.cli import main as mmctl
from mm_operator.plan.engine.model_plan import model_plan
from mm_operator.plan.engine.request import Inputs
from mm_operator.settings import BUILDER_VERSION
from mm_runtime.cli import main as runtime
from support.broken_checkpoints import (
    INDEX,
    SINGLE,
    copied,
    edit_json,
    read_tensors,
    shard,
    write_tensors,
)
from support.model_documents import document
from support.models import spec_of

Change = Callable[[Path], object]


def inspected(source: Path, log: Path) -> InspectResult:
    runtime(["inspect", "--source", str(source), "--termination-log", str(log)])
    return InspectResult.from_json(log.read_text())


def planned(source: Path, folder: Path) -> int:
    spec = folder / "model.yaml"
    spec.write_text(json.dumps(document({"engine": {"backend": "Reference"}})))
    return mmctl(["plan", "-f", str(spec), "--checkpoint", str(source), "-o", "json"])


def stale_shard(source: Path) -> None:
    first, _ = shard(source)
    tensors = read_tensors(first)
    write_tensors(first, tensors | {"left_over.weight": next(iter(tensors.values()))})


def tensor_in_two_shards(source: Path) -> None:
    first, second = shard(source)
    name, tensor = next(iter(read_tensors(first).items()))
    write_tensors(second, read_tensors(second) | {name: tensor})


def quantized(section: str | None = None, **stated: Any) -> Change:
    value: dict[str, Any] = {"quantization_config": stated}
    return lambda source: edit_json(
        source / "config.json", **({section: value} if section else value)
    )


def tensors(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Change:
    def write(source: Path) -> None:
        write_tensors(source / SINGLE, change(read_tensors(source / SINGLE)))

    return write


def with_tensor(suffix: str, dtype: str = "F32", size: int = 4) -> Change:
    name = "language_model.model.layers.1.mlp.up_proj"
    written = ({"dtype": dtype, "shape": [320, 128]}, bytes(size * 320 * 128))
    return tensors(lambda held: held | {f"{name}.{suffix}": written})


LAYER = "language_model.model.layers"
EMBEDDING = "language_model.model.embed_tokens.weight"


def without(words: str) -> Change:
    return tensors(lambda held: {k: v for k, v in held.items() if words not in k})


def renamed(old: str, new: str) -> Change:
    return tensors(lambda held: {k.replace(old, new): v for k, v in held.items()})


def reshaped(name: str, *shape: int) -> Change:
    def change(held: dict[str, Any]) -> dict[str, Any]:
        entry, content = held[name]
        return held | {name: ({**entry, "shape": shape}, content[: 4 * prod(shape)])}

    return tensors(change)


def configured(**changes: Any) -> Change:
    return lambda source: edit_json(source / "config.json", **changes)


REFUSED: dict[str, tuple[Change, str]] = {
    "stale-shard": (stale_shard, "left_over.weight"),
    "tensor-in-two-shards": (tensor_in_two_shards, "of another checkpoint"),
    "index-without-metadata": (
        lambda s: shard(s) and (s / INDEX).write_text('{"weight_map": {"a": "b.safetensors"}}'),
        "has no metadata",
    ),
    "variant-alone": (lambda s: (s / SINGLE).rename(s / "model.fp16.safetensors"), "model.fp16"),
    **{
        f"method-{method}": (quantized(quant_method=method), f"quant_method = '{method}'")
        for method in (
            *("awq", "gptq", "fp8", "compressed-tensors", "bitsandbytes", "mxfp4", "hqq", "eetq"),
            *("quanto", "torchao", "a-method-of-tomorrow"),
        )
    },
    "method-of-a-section": (
        quantized("text_config", quant_method="awq"),
        "text_config.quantization_config",
    ),
    "method-left-out": (quantized(load_in_4bit=True), "'bitsandbytes'"),
    "method-unnamed": (quantized(bits=4), "names no quant_method"),
    "older-compressed-tensors": (
        lambda s: edit_json(
            s / "config.json", compression_config={"quant_method": "compressed-tensors"}
        ),
        "compression_config",
    ),
    "mlx": (lambda s: edit_json(s / "config.json", quantization={"bits": 4}), "'mlx'"),
    "model-optimizer-without-its-file": (
        quantized(quant_method="modelopt"),
        "hf_quant_config.json is missing",
    ),
    "model-optimizer-in-another-format": (
        lambda s: (s / "hf_quant_config.json").write_text(
            '{"quantization": {"quant_algo": "W4A8_AWQ"}}'
        ),
        "W4A8_AWQ",
    ),
    **{
        f"scales-{suffix}": (with_tensor(suffix), f"up_proj.{suffix} (F32) is of a quantization")
        for suffix in (
            *("weight_scale", "weight_scale_inv", "scales", "weight.absmax"),
            "weight.quant_state.bitsandbytes__nf4",
        )
    },
    "packed-qweight": (with_tensor("qweight", "I32"), "up_proj.qweight (I32)"),
    "packed-weight": (with_tensor("weight", "U8", 1), "up_proj.weight (U8)"),
    "fp8-without-scales": (with_tensor("weight", "F8_E4M3", 1), "up_proj.weight (F8_E4M3)"),
    "layer-without-mlp": (without("layers.3.mlp"), "lacks mlp.down_proj.weight"),
    "layer-without-a-norm": (
        without(f"{LAYER}.0.input_layernorm"),
        f"layer 0 of {LAYER} lacks input_layernorm.weight, which layer 1 has",
    ),
    "layer-missing": (without(f"{LAYER}.2."), "lack layer 2; config.json says 4 layers"),
    "layer-too-many": (configured(text_config={"num_hidden_layers": 3}), "have layer 3"),
    "layer-too-few": (configured(vision_config={"num_hidden_layers": 5}), "lack layer 4"),
    "weight-renamed": (renamed("layers.1.mlp.up_proj", "layers.1.mlp.w3"), "lacks mlp.up_proj"),
    "weight-left-over": (with_tensor("bias"), "has mlp.up_proj.bias, which layer 0 has not"),
    "tower-missing": (without("vision_tower"), "no layer of the vision tower"),
    "layer-of-the-tower": (without("encoder.layers.1.mlp.fc1"), "lacks mlp.fc1.bias"),
    "language-model-missing": (without("language_model"), "no layer of the language model"),
    "head-missing": (without("lm_head"), "no lm_head.weight"),
    "embedding-missing": (without("embed_tokens"), "no embedding"),
    "halved": (reshaped(f"{LAYER}.1.mlp.up_proj.weight", 160, 128), "config.json says [320, 128]"),
    "norm-halved": (reshaped(f"{LAYER}.1.input_layernorm.weight", 64), "most layers have [128]"),
    "transposed": (reshaped(f"{LAYER}.1.mlp.up_proj.weight", 128, 320), "says [320, 128]"),
    "embedding-halved": (reshaped(EMBEDDING, 45, 128), "config.json says [91, 128]"),
    "another-vocabulary": (configured(text_config={"vocab_size": 92}), "says [92, 128]"),
    "another-width": (configured(text_config={"intermediate_size": 640}), "says [128, 640]"),
    "other-heads": (configured(text_config={"num_key_value_heads": 4}), "says [128, 128]"),
    "heads-of-the-tower": (configured(vision_config={"num_attention_heads": 3}), "3 attention"),
    "fairseqs-layout": (
        lambda s: (s / "config.json").rename(s / "model.pt"),
        "name FairSeq's archive, of which model.pt is, as spec.model.source.archive",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_both_refuse(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, words = REFUSED[case]
    source = copied("tiny-llava", tmp_path / "source")
    change(source)

    error = inspected(source, tmp_path / "log").error
    code = planned(source, tmp_path)

    assert words in error.message
    assert code == 2
    assert error.message in capsys.readouterr().err


OF_THE_CLASS: dict[str, tuple[Change, str]] = {
    "norm-missing": (without("language_model.model.norm"), "language_model.norm.weight"),
    "projector-missing": (without("projector.linear_2.bias"), "linear_2.bias"),
    "patches-left-over": (
        tensors(lambda held: held | {"vision_tower.pre.weight": held[EMBEDDING]}),
        "1 left over",
    ),
    "projector-halved": (
        reshaped("multi_modal_projector.linear_1.weight", 64, 128),
        "linear_1.weight has the shape [64, 128], expected [128, 128]",
    ),
    "rope-type": (
        configured(text_config={"rope_scaling": {"rope_type": "spiral", "factor": 2.0}}),
        "text_config.rope_scaling.rope_type is 'spiral'",
    ),
}


@pytest.mark.parametrize("case", OF_THE_CLASS)
def test_what_only_the_class_shows(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Job has torch, and refuses it. `mmctl` has none, and says what it has not looked at."""
    pytest.importorskip("torch", reason="unit tests hide it; `make test` runs these")
    change, words = OF_THE_CLASS[case]
    source = copied("tiny-llava", tmp_path / "source")
    change(source)

    error = inspected(source, tmp_path / "log").error
    capsys.readouterr()
    code = planned(source, tmp_path)

    assert words in error.message
    warnings = {one.code for one in ModelPlan.from_json(capsys.readouterr().out).warnings}
    assert (code, warnings) == (0, {"ClassNotCompared"})


def copied_weights(name: str) -> Change:
    return lambda source: shutil.copyfile(source / SINGLE, source / name)


def shards_beside(source: Path) -> None:
    kept = source.with_name("kept")
    shutil.copyfile(source / SINGLE, kept)
    shard(source)
    kept.rename(source / SINGLE)


def named_by_the_configuration(source: Path) -> None:
    """Keep the weights under another name, beside a file of the usual name that is none."""
    (source / SINGLE).rename(source / "converted.safetensors")
    (source / SINGLE).write_bytes(b"of another program")
    edit_json(source / "config.json", transformers_weights="converted.safetensors")


def half_precision_beside(source: Path) -> None:
    (source / "model.safetensors.index.fp16.json").write_text("{}")
    copied_weights("model.fp16-00001-of-00001.safetensors")(source)


ACCEPTED: dict[str, Change] = {
    "as-published": lambda _: None,
    "in-shards": shard,
    "consolidated": copied_weights("consolidated.safetensors"),
    "variant": half_precision_beside,
    "named-by-config": named_by_the_configuration,
    "pickle": copied_weights("pytorch_model.bin"),
    "shards-and-single": shards_beside,
    "stored-float32": lambda s: edit_json(s / "config.json", dtype="bfloat16"),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_both_count_the_same_weights(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that transformers would load, in the type in which they are stored."""
    source = copied("tiny-llava", tmp_path / "source")
    ACCEPTED[case](source)

    facts = inspected(source, tmp_path / "log").facts
    capsys.readouterr()
    code = planned(source, tmp_path)

    assert (facts.parameters, facts.dtype, code) == (1_419_392, "float32", 0)
    expected = model_plan(
        Inputs(
            model="llava",
            spec=spec_of({"engine": {"backend": "Reference"}}),
            facts=facts,
            builder_version=BUILDER_VERSION,
        )
    )
    assert ModelPlan.from_json(capsys.readouterr().out).memory == expected.memory
