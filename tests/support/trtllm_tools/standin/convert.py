"""convert_checkpoint.py of each family: a Hugging Face folder becomes a TensorRT-LLM checkpoint."""

import argparse
import json
from pathlib import Path
from typing import Any

from arguments import VERSION, parse, refuse
from files import check_weights, read_json, write_rank_weights

MODELS = {
    "llama": ("llama", "llava", "llava_next", "llava_llama", "vila"),
    "qwen": ("qwen2", "qwen2_vl", "llava_onevision"),
    "mllama": ("mllama",),
    "opt": ("opt", "blip-2"),
    "whisper": ("whisper",),
}
"""Converter -> model_type of config.json that it knows."""

ENCODER_DECODERS = {
    "t5": ("t5", "mt5"),
    "bart": ("bart", "mbart"),
    "blip2": ("blip-2",),
}
"""--model_type -> model_type of config.json."""

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen": "QWenForCausalLM",
    "mllama": "MLLaMAForCausalLM",
    "opt": "OPTForCausalLM",
}
LLAMA_DEFAULTS = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
LLAMA_DEFAULTS |= {"vocab_size": 32000}


def main(program: str) -> None:
    arguments = parse(program)
    source = Path(arguments.model_dir or ".")
    target = Path(arguments.output_dir)
    ranks = ranks_of(arguments)
    if program == "whisper":
        parts = _whisper(arguments, source)
    elif program == "enc_dec":
        parts = _encoder_decoder(arguments, source)
    else:
        parts = {"": decoder_only(arguments, source, program)}
    for number, (name, config) in enumerate(parts.items(), start=1):
        check_split(config, arguments)
        write_part(target / name, config, ranks, f"{program}{name}{arguments.dtype}")
        print(f"Weights loaded. {100 * number // len(parts)}%")
    print("Total time of converting checkpoints: 00:00:00")


def ranks_of(arguments: argparse.Namespace) -> int:
    return (getattr(arguments, "tp_size", None) or 1) * (getattr(arguments, "pp_size", None) or 1)


def decoder_only(arguments: argparse.Namespace, source: Path, program: str) -> dict[str, Any]:
    complete = read_json(source / "config.json")
    kind = complete.get("model_type")
    if program == "opt" and complete.get("text_config", {}).get("model_type") == "t5":
        refuse("BLIP-2's language model is a T5: use the encoder-decoder converter")
    if program in MODELS and kind not in MODELS[program]:
        refuse(f"model type {kind} is not one of this converter: {', '.join(MODELS[program])}")
    if kind == "llava_llama" and "vila" not in str(source).lower():
        # Upstream knows VILA by the name of its folder.
        refuse(f"{source}: no such model type: llava_llama")
    check_weights(source / "llm" if (source / "llm").is_dir() else source)
    if program == "opt" and (arguments.pp_size or 1) > 1:
        refuse("OPT does not support pipeline parallelism")
    text = complete.get("text_config") or complete.get("llm_cfg") or complete
    config = {key: text.get(key, complete.get(key, value)) for key, value in LLAMA_DEFAULTS.items()}
    if program == "mllama":
        config["vocab_size"] += 8
    return {
        "architecture": ARCHITECTURES.get(program, "LlamaForCausalLM"),
        "dtype": _dtype(arguments.dtype, complete),
        **config,
        **({"qwen_type": kind} if program == "qwen" else {}),
        **common(arguments),
    }


def _encoder_decoder(arguments: argparse.Namespace, source: Path) -> dict[str, dict[str, Any]]:
    if arguments.model_dir is None or arguments.output_dir is None:
        refuse("the following arguments are required: --model_dir, --output_dir")
    requested = arguments.model_type or "t5"
    complete = read_json(source / "config.json")
    check_weights(source)
    if complete.get("model_type") not in ENCODER_DECODERS.get(requested, ()):
        refuse(f"--model_type {requested} cannot read a {complete.get('model_type')}")
    if requested == "blip2":
        complete = complete["text_config"]
        if complete.get("model_type") != "t5":
            refuse(
                f"BLIP-2's language model is a {complete.get('model_type')}: use the OPT converter"
            )
    hidden = complete["d_model"]
    heads = complete.get("num_heads") or complete["encoder_attention_heads"]
    layers = complete.get("num_layers") or complete["encoder_layers"]
    shared = {
        "dtype": _dtype(arguments.dtype, complete),
        "hidden_size": hidden,
        "vocab_size": complete.get("vocab_size", 0),
        "model_type": requested,
        **common(arguments),
    }
    decoder_layers = complete.get("num_decoder_layers") or complete.get("decoder_layers") or layers
    decoder_heads = complete.get("decoder_attention_heads") or heads
    return {
        "encoder": {
            "architecture": "EncoderModel",
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            **shared,
        },
        "decoder": {
            "architecture": "DecoderModel",
            "num_hidden_layers": decoder_layers,
            "num_attention_heads": decoder_heads,
            **shared,
        },
    }


def _whisper(arguments: argparse.Namespace, source: Path) -> dict[str, dict[str, Any]]:
    path = source / f"{arguments.model_name}.pt"
    if not path.is_file():
        refuse(f"Model {path} does not exist: OpenAI's format is expected")
    complete = read_json(source / "config.json")
    shared = {
        "dtype": _dtype(arguments.dtype, complete),
        "hidden_size": complete["d_model"],
        "vocab_size": complete["vocab_size"],
        **common(arguments),
    }
    encoder = {"architecture": "WhisperEncoder", "n_mels": complete["num_mel_bins"]}
    encoder |= {
        "num_hidden_layers": complete["encoder_layers"],
        "num_attention_heads": complete["encoder_attention_heads"],
    }
    decoder = {"architecture": "DecoderModel", "model_type": "whisper"}
    decoder |= {
        "num_hidden_layers": complete["decoder_layers"],
        "num_attention_heads": complete["decoder_attention_heads"],
    }
    return {"encoder": encoder | shared, "decoder": decoder | shared}


def common(arguments: argparse.Namespace) -> dict[str, Any]:
    tensor, pipeline = (getattr(arguments, name, None) or 1 for name in ("tp_size", "pp_size"))
    weight_only = getattr(arguments, "use_weight_only", False)
    precision = (getattr(arguments, "weight_only_precision", None) or "int8").upper()
    algorithm = {"INT8": "W8A16", "INT4": "W4A16"}.get(precision) if weight_only else None
    return {
        "version": VERSION,
        "mapping": {
            "world_size": tensor * pipeline,
            "gpus_per_node": 8,
            "tp_size": tensor,
            "pp_size": pipeline,
        },
        "quantization": {"quant_algo": algorithm, "kv_cache_quant_algo": None},
    }


def check_split(config: dict[str, Any], arguments: argparse.Namespace) -> None:
    tensor, pipeline = (getattr(arguments, name, None) or 1 for name in ("tp_size", "pp_size"))
    if config["num_attention_heads"] % tensor:
        refuse(f"num_attention_heads {config['num_attention_heads']} % tp_size {tensor} != 0")
    if config["num_hidden_layers"] % pipeline:
        refuse(f"num_hidden_layers {config['num_hidden_layers']} % pp_size {pipeline} != 0")


def write_part(folder: Path, config: dict[str, Any], ranks: int, seed: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=4))
    write_rank_weights(folder, ranks, seed + json.dumps(config))


def _dtype(requested: str | None, complete: dict[str, Any]) -> str:
    stored = str(complete.get("torch_dtype") or complete.get("dtype") or "float16")
    if requested in {None, "auto"}:
        return "float16" if stored == "float32" else stored
    return str(requested)
