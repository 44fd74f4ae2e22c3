"""trtllm-build: a TensorRT-LLM checkpoint becomes one engine a rank."""

import argparse
import json
from pathlib import Path
from typing import Any

from arguments import VERSION, parse, refuse
from files import read_header, read_json, write_engine

DEFAULTS = {
    "max_batch_size": 2048,
    "max_input_len": 1024,
    "max_beam_width": 1,
    "max_num_tokens": 8192,
    "max_encoder_input_len": 1024,
    "max_prompt_embedding_table_size": 0,
}
"""tensorrt_llm/builder.py, class BuildConfig."""

TYPES = ("float16", "bfloat16", "float32")


def main(program: str) -> None:
    arguments = parse(program)
    if arguments.checkpoint_dir is None:
        refuse("--checkpoint_dir or --model_config must be given")
    source = Path(arguments.checkpoint_dir)
    checkpoint = read_json(source / "config.json")
    ranks = checkpoint["mapping"]["world_size"]
    for rank in range(ranks):
        path = source / f"rank{rank}.safetensors"
        if not path.is_file():
            refuse(f"{path} does not exist, and the checkpoint has world_size {ranks}")
        read_header(path)
    limits = _limits(arguments)
    plugins = _plugins(arguments)
    _check(arguments, checkpoint, limits, plugins)
    target = Path(arguments.output_dir or "engine_outputs")
    target.mkdir(parents=True, exist_ok=True)
    config = {
        "version": VERSION,
        "pretrained_config": checkpoint,
        "build_config": {
            **limits,
            "kv_cache_type": (arguments.kv_cache_type or "paged").upper(),
            "lora_config": {
                "lora_dir": arguments.lora_dir or [],
                "lora_target_modules": arguments.lora_target_modules or [],
                "max_lora_rank": arguments.max_lora_rank or 64,
            },
            "plugin_config": plugins,
        },
    }
    (target / "config.json").write_text(json.dumps(config, indent=4))
    _measure(arguments, json.dumps(limits))
    for rank in range(ranks):
        print(f"Total time of building rank {rank}: 00:00:00 {100 * (rank + 1) // ranks}%")
        write_engine(target / f"rank{rank}.engine", json.dumps(config) + str(rank))


def _measure(arguments: argparse.Namespace, what: str) -> None:
    """Read and write the timing cache as tensorrt_llm/builder.py does."""
    entries: list[str] = []
    given = Path(arguments.input_timing_cache) if arguments.input_timing_cache else None
    if given and given.exists():
        try:
            entries = json.loads(given.read_text())
        except ValueError:
            refuse("[TRT] [E] createTimingCache: deserialization of the timing cache failed")
        print(f"[TRT-LLM] [I] timing cache with {len(entries)} entries")
    elif given:
        print("[TRT-LLM] [W] Invalid timing cache, using freshly created one")
    entries = sorted({*entries, what})
    Path(arguments.output_timing_cache or "model.cache").write_text(json.dumps(entries))


def _limits(arguments: argparse.Namespace) -> dict[str, Any]:
    limits = {
        name: default if (given := getattr(arguments, name)) is None else given
        for name, default in DEFAULTS.items()
    }
    limits["max_seq_len"] = arguments.max_seq_len
    return limits


def _plugins(arguments: argparse.Namespace) -> dict[str, Any]:
    names = [name for name in vars(arguments) if name.endswith("_plugin")]
    names += ["context_fmha", "remove_input_padding", "use_paged_context_fmha", "streamingllm"]
    given = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def _check(
    arguments: argparse.Namespace,
    checkpoint: dict[str, Any],
    limits: dict[str, Any],
    plugins: dict[str, Any],
) -> None:
    architecture, dtype = checkpoint["architecture"], checkpoint["dtype"]
    for name in ("gemm_plugin", "gpt_attention_plugin", "bert_attention_plugin"):
        if plugins.get(name) in TYPES and plugins[name] != dtype:
            refuse(f"{name} {plugins[name]} does not fit a checkpoint of {dtype}")
    if plugins.get("streamingllm") == "enable" and architecture != "LlamaForCausalLM":
        refuse("StreamingLLM is only supported in the llama model.")
    longest = limits["max_seq_len"]
    if longest is not None and longest < limits["max_input_len"]:
        refuse(f"max_seq_len {longest} is below max_input_len {limits['max_input_len']}")
    table, batch = limits["max_prompt_embedding_table_size"], limits["max_batch_size"]
    if table % batch:
        refuse(f"max_prompt_embedding_table_size {table} is no multiple of max_batch_size {batch}")
    if table and architecture in {"DecoderModel", "MLLaMAForCausalLM", "WhisperEncoder"}:
        refuse(f"{architecture} has no prompt embedding table")
    encoder = architecture in {"EncoderModel", "WhisperEncoder"}
    if (arguments.kv_cache_type == "disabled") != encoder:
        refuse(f"{architecture}: the KV cache is for decoders, and every decoder has one")
    attends = architecture in {"DecoderModel", "MLLaMAForCausalLM"}
    if attends and arguments.max_encoder_input_len is None:
        refuse(f"{architecture} needs --max_encoder_input_len")
    _check_lora(arguments, plugins)


def _check_lora(arguments: argparse.Namespace, plugins: dict[str, Any]) -> None:
    if arguments.lora_dir and plugins.get("lora_plugin", "disable") == "disable":
        refuse("--lora_dir has no effect without --lora_plugin")
    for folder in arguments.lora_dir or []:
        read_json(Path(folder) / "adapter_config.json")
