"""trtllm-serve: a Hugging Face folder answers as OpenAI's API does, with sentences that are fixed.

Standard library only, but for yaml where the options are YAML and not JSON, which is YAML as well.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from arguments import TABLE, TYPES, VERSION, refuse
from chat import LISTENING, Server
from files import check_weights, read_json

CLASSES = (
    "Qwen2VLForConditionalGeneration",
    "LlavaLlamaModel",
    "MllamaForConditionalGeneration",
    "LlavaNextForConditionalGeneration",
    "Gemma3ForConditionalGeneration",
)
"""@register_auto_model of tensorrt_llm/_torch/models, as far as this project's families go."""

FIELDS = {
    "kv_cache_config",
    "max_input_len",
    "max_seq_len",
    "max_batch_size",
    "max_num_tokens",
    "enable_iter_perf_stats",
    "disable_overlap_scheduler",
    "cuda_graph_config",
    "guided_decoding_backend",
    "dtype",
    "attn_backend",
    "enable_chunked_prefill",
    "stream_interval",
    "print_iter_log",
}
"""Fields of TorchLlmArgs (tensorrt_llm/llmapi/llm_args.py), as far as a plan may use them."""

CACHE_FIELDS = {
    "enable_block_reuse",
    "max_tokens",
    "free_gpu_memory_fraction",
    "host_cache_size",
    "enable_partial_reuse",
    "copy_on_partial_reuse",
}
GRAPH_FIELDS = {"batch_sizes", "max_batch_size", "enable_padding"}
POLL_SECONDS = 0.05
SUBCOMMANDS = {"disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve"}


def main(program: str) -> None:
    """Serve until SIGTERM; then finish what is being answered, as uvicorn does."""
    arguments = _parse(program)
    folder = Path(arguments.model)
    if not folder.is_dir():
        refuse(f"{folder} is no folder, and this stand-in downloads nothing")
    config = read_json(folder / "config.json")
    _check(arguments, folder, config)
    options = _options(arguments)
    print(f"[TRT-LLM] [I] options {json.dumps(options, sort_keys=True)}", flush=True)
    # Loading takes minutes, and no one listens meanwhile.
    until = os.environ.get("MM_RECORDED_LOADS_UNTIL")
    while until and not Path(until).exists():
        time.sleep(POLL_SECONDS)
    server = Server((arguments.host, arguments.port), folder, VERSION, options)
    signal.signal(signal.SIGTERM, lambda *_: server.leave())
    print(LISTENING.format(host=arguments.host, port=server.server_port), flush=True)
    server.serve_forever()
    server.finish()


def _parse(program: str) -> argparse.Namespace:
    words = sys.argv[1:]
    if words[:1] == ["serve"]:
        words = words[1:]
    elif words and words[0] in SUBCOMMANDS:
        refuse(f"subcommand {words[0]} is not recorded")
    # click takes no abbreviations; it ends with 2 as argparse does.
    parser = argparse.ArgumentParser(prog=program, allow_abbrev=False)
    parser.add_argument("model")
    for name, option in TABLE["programs"][program].items():
        keywords: dict[str, Any] = dict(option)
        if "type" in keywords:
            keywords["type"] = {**TYPES, "float": float}[keywords["type"]]
        parser.add_argument(f"--{name}", **keywords)
    arguments = parser.parse_args(words)
    if arguments.host is None:
        arguments.host = "localhost"
    if arguments.port is None:
        arguments.port = 8000
    return arguments


def _check(arguments: argparse.Namespace, folder: Path, config: dict[str, Any]) -> None:
    architecture = (config.get("architectures") or ["(none)"])[0]
    if architecture not in CLASSES:
        refuse(f"Unknown architecture for AutoModelForCausalLM: {architecture}")
    parts = [part for part in ("llm", "vision_tower") if (folder / part).is_dir()]
    check_weights(folder / parts[0] if parts else folder)
    heads = config.get("num_attention_heads") or 0
    ranks = arguments.tp_size or 1
    if heads % ranks:
        refuse(f"num_attention_heads {heads} % tp_size {ranks} != 0")
    if (arguments.backend or "pytorch") != "pytorch":
        refuse(f"backend {arguments.backend} is not recorded")


def _read(text: str) -> Any:
    if text.startswith("{"):
        return json.loads(text)
    import yaml  # noqa: PLC0415 (see module)

    return yaml.safe_load(text)


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.extra_llm_api_options is None:
        return {}
    options: dict[str, Any] = _read(Path(arguments.extra_llm_api_options).read_text())
    check_options(options)
    return options


def check_options(options: dict[str, Any]) -> None:
    """Refuse fields that TorchLlmArgs of this version lacks."""
    known = FIELDS | (set() if VERSION.startswith("1.0.") else {"return_perf_metrics"})
    known |= set() if VERSION.startswith(("1.0.", "1.1.")) else {"batch_wait_timeout_ms"}
    # Null: without graphs.
    cache, graphs = options.get("kv_cache_config", {}), options.get("cuda_graph_config") or {}
    known_cache = CACHE_FIELDS | (set() if VERSION.startswith("1.0.") else {"dtype"})
    for kind, foreign in (
        ("TorchLlmArgs", set(options) - known),
        ("KvCacheConfig", set(cache) - known_cache),
        ("CudaGraphConfig", set(graphs) - GRAPH_FIELDS),
    ):
        if foreign:
            refuse(f"1 validation error for {kind}: {min(foreign)}: Extra inputs are not permitted")
    backend = options.get("guided_decoding_backend")
    if backend not in {None, "xgrammar", "llguidance"}:
        refuse(f"Unsupported guided decoding backend {backend}")
