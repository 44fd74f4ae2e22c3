"""What TensorRT-LLM's backend refuses, before anything runs: configuration, then each request.

Runs inside tritonserver. Names and rules: upstream's template, `triton_backend/
inflight_batcher_llm/src` and `cpp/tensorrt_llm/batch_manager` of TensorRT-LLM.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

POLICIES = {"max_utilization", "guaranteed_no_evict", "static_batch"}
DECODING_MODES = {"top_k", "top_p", "top_k_top_p", "beam_search"}
TRITON_TYPES = {"float16": "TYPE_FP16", "bfloat16": "TYPE_BF16", "float32": "TYPE_FP32"}
ENCODER_DECODERS = {"DecoderModel"}
CROSSING = {*ENCODER_DECODERS, "MLLaMAForCausalLM"}
ROTATED = {"Qwen2VLForConditionalGeneration"}


MODULES = {
    "attn_q": 1,
    "attn_k": 2,
    "attn_v": 3,
    "attn_dense": 4,
    "mlp_h_to_4h": 5,
    "mlp_4h_to_h": 6,
    "mlp_gate": 7,
    "cross_attn_q": 9,
    "cross_attn_k": 10,
    "cross_attn_v": 11,
    "cross_attn_dense": 12,
}
"""Name -> id of LoraModule (loraModule.h)."""


class RefusedError(Exception):
    """Something that the real backend does not take."""


def demand(claim: object, message: str) -> None:
    """Refuse unless the claim holds."""
    if not claim:
        raise RefusedError(message)


def check_config(config: dict[str, Any], template: dict[str, Any], engine: dict[str, Any]) -> None:
    """Refuse a configuration that upstream's template cannot give."""
    demand(config["backend"] == "tensorrtllm", f"backend is {config['backend']!r}")
    policy = config.get("model_transaction_policy", {})
    demand(policy.get("decoupled"), "model_transaction_policy.decoupled is needed to stream")
    dtype = TRITON_TYPES[engine["pretrained_config"]["dtype"]]
    filled = {
        "${logits_datatype}": "TYPE_FP32",
        "${encoder_input_features_data_type}": dtype,
        "${prompt_embedding_table_data_type}": dtype,
    }
    for side in ("input", "output"):
        known = {one["name"]: one for one in template[f"{side}s"]}
        for tensor in config[side]:
            _check_tensor(tensor, known.get(tensor["name"]), filled, side)
    given = {name: value["string_value"] for name, value in config["parameters"].items()}
    unknown = sorted(set(given) ^ set(template["parameters"]))
    demand(not unknown, f"parameters {unknown} are not those of the template")
    _check_parameters(given, engine)


def _check_tensor(
    tensor: dict[str, Any], known: dict[str, Any] | None, filled: dict[str, str], side: str
) -> None:
    demand(known, f"the template has no {side} {tensor['name']}")
    assert known is not None
    kind = filled.get(known["data_type"], known["data_type"])
    expected = (kind, [int(one) for one in known["dims"]])
    found = (tensor["data_type"], [int(one) for one in tensor["dims"]])
    demand(expected == found, f"{side} {tensor['name']} is {found}; the template has {expected}")
    if side == "input":
        for name in ("optional", "allow_ragged_batch"):
            same = bool(known.get(name)) == bool(tensor.get(name))
            demand(same, f"input {tensor['name']}: {name} is not the template's")


def _check_parameters(given: dict[str, str], engine: dict[str, Any]) -> None:
    build, kind = engine["build_config"], engine["pretrained_config"]["architecture"]
    demand(given["gpt_model_type"] == "inflight_fused_batching", "gpt_model_type is not in-flight")
    demand(given["batch_scheduler_policy"] in POLICIES, "batch_scheduler_policy is unknown")
    demand(given["decoding_mode"] in DECODING_MODES, "decoding_mode is unknown")
    fraction = float(given["kv_cache_free_gpu_mem_fraction"])
    demand(0 < fraction <= 1, f"kv_cache_free_gpu_mem_fraction is {fraction}")
    crosses = kind in CROSSING
    demand(
        bool(given["cross_kv_cache_fraction"]) == crosses,
        f"cross_kv_cache_fraction is {given['cross_kv_cache_fraction']!r} for {kind}",
    )
    demand(
        bool(given["encoder_model_path"]) == (kind in ENCODER_DECODERS),
        f"encoder_model_path is {given['encoder_model_path']!r} for {kind}",
    )
    demand(
        given["enable_kv_cache_reuse"] != "true"
        or build.get("plugin_config", {}).get("use_paged_context_fmha") == "enable",
        "KV cache reuse requires paged context FMHA, which the engine was built without",
    )
    demand(
        int(given["max_beam_width"]) <= build["max_beam_width"],
        f"max_beam_width is {given['max_beam_width']}, and the engine has "
        f"{build['max_beam_width']}",
    )


@dataclass(frozen=True)
class RequestChecks:
    """What a request must bring for one engine."""

    engine: Mapping[str, Any]
    """Its config.json."""

    rotations: int
    """Values of `mrope_rotary_cos_sin`; 0: the engine has no such input."""

    reuses: bool = False
    """It keeps blocks of earlier requests."""

    tasks: frozenset[int] = frozenset()
    """Ids of adapters in the cache of the host."""

    @property
    def kind(self) -> str:
        return str(self.engine["pretrained_config"]["architecture"])

    def check(self, inputs: Mapping[str, Any]) -> None:
        """Refuse a request."""
        for name, array in inputs.items():
            demand(
                array.shape[:1] == (1,), f"{name}: got shape {array.shape}, expected one request"
            )
        demand(
            "input_ids" in inputs or "encoder_input_features" in inputs,
            "input_ids or encoder_input_features is not present in the request",
        )
        self._check_lengths(inputs)
        self._check_table(inputs)
        if "lora_task_id" in inputs:  # -1 of run.py is no task, either
            task = int(inputs["lora_task_id"].reshape(-1)[0])
            demand(task in self.tasks, f"LoRA task {task} not found in cache. Please send weights")
        if self.kind == "MLLaMAForCausalLM":
            self._check_crossing(inputs)
        if self.rotations:
            values = inputs.get("mrope_rotary_cos_sin")
            demand(values is not None, "mrope_rotary_cos_sin: bad optional access")
            assert values is not None
            demand(
                values.size == self.rotations,
                f"Provided MropeRotarySinCos is {values.size} and expected is {self.rotations}",
            )
            demand("mrope_position_deltas" in inputs, "mrope_position_deltas is missing")

    def _check_lengths(self, inputs: Mapping[str, Any]) -> None:
        """Refuse what `LlmRequest` refuses: of an encoder-decoder the decoder's prompt counts."""
        build = self.engine["build_config"]
        decodes = self.kind in ENCODER_DECODERS
        if decodes and "input_ids" in inputs:
            read, most = inputs["input_ids"].shape[1], build["max_encoder_input_len"]
            demand(read <= most, f"{read} tokens are above max_encoder_input_len {most}")
        prompt = inputs.get("decoder_input_ids" if decodes else "input_ids")
        if prompt is None:
            return
        length, most = prompt.shape[1], build["max_input_len"]
        demand(length <= most, f"Prompt length ({length}) exceeds maximum input length ({most})")
        longest = length + int(np.asarray(inputs["request_output_len"]).reshape(-1)[0])
        demand(
            longest <= build["max_seq_len"],
            f"{longest} tokens are above max_seq_len {build['max_seq_len']}",
        )

    def _check_table(self, inputs: Mapping[str, Any]) -> None:
        build, pretrained = self.engine["build_config"], self.engine["pretrained_config"]
        vocabulary = pretrained["vocab_size"]
        ids = inputs.get("input_ids")
        rows = 0
        if "prompt_embedding_table" in inputs:
            table = inputs["prompt_embedding_table"]
            extra = inputs.get("prompt_table_extra_ids")
            demand(
                extra is not None or not self.reuses,
                "Input token extra ids must be provided when enabling kv cache reuse with prompt "
                "table",
            )
            if extra is not None and ids is not None:
                demand(
                    extra.shape == ids.shape,
                    "inputTokenExtraIds vector size must be the same as input token vector size",
                )
            most = build["max_prompt_embedding_table_size"] // build["max_batch_size"]
            rows = table.shape[1]
            demand(
                rows <= most,
                f"prompt vocab size {rows} is larger than max prompt vocab size of {most}",
            )
            hidden = pretrained["hidden_size"]
            demand(table.shape[2] == hidden, f"prompt_embedding_table is {table.shape[2]} wide")
        if ids is not None:
            highest = int(ids.max())
            demand(
                highest < vocabulary + rows,
                f"input_ids has {highest}: {vocabulary} tokens and {rows} rows are known",
            )

    def _check_crossing(self, inputs: Mapping[str, Any]) -> None:
        needed = (
            *("encoder_input_features", "encoder_output_lengths"),
            *("cross_attention_mask", "skip_cross_attn_blocks"),
        )
        for name in needed:
            demand(name in inputs, f"{name} is missing: the engine has cross attention")
        features = inputs["encoder_input_features"]
        length = int(np.asarray(inputs["encoder_output_lengths"]).reshape(-1)[0])
        demand(features.shape[1] == length, f"encoder_output_lengths is {length}")
        most = self.engine["build_config"]["max_encoder_input_len"]
        demand(length <= most, f"encoder length {length} is above max_encoder_input_len {most}")
        mask = inputs["cross_attention_mask"]
        demand(mask.shape[-1] == length, f"cross_attention_mask has {mask.shape[-1]} columns")


def read_adapters(given: Mapping[str, str], engine: Mapping[str, Any]) -> frozenset[int]:
    """Return the tasks in the host's cache, of `lora_prefetch_dir` (peftCacheManager.cpp)."""
    folder = Path(given["lora_prefetch_dir"] or "/nowhere")
    tasks = [one for one in folder.glob("*") if one.name.isdigit()]
    stored = sum(_bytes_of(one, engine) for one in tasks)
    most = int(given["lora_cache_host_memory_bytes"])
    demand(stored <= most, f"PEFT Cache is full: {stored} bytes are above {most}")
    return frozenset(int(one.name) for one in tasks)


def _bytes_of(folder: Path, engine: Mapping[str, Any]) -> int:
    pretrained, lora = engine["pretrained_config"], engine["build_config"]["lora_config"]
    weights, keys = (np.load(folder / f"model.lora_{one}.npy") for one in ("weights", "config"))
    demand(weights.ndim == 3 and len(weights) == 1, "Invalid shape for lora_weights tensor")
    demand(keys.ndim == 3 and len(keys) == 1, "Invalid shape for lora_keys tensor")
    demand(keys.dtype == np.int32, f"Expected lora keys to have TYPE_INT32 but was {keys.dtype}")
    demand(keys.shape[1] == weights.shape[1], "Expected dim1 lora_weights and lora_keys to be same")
    demand(keys.shape[2] in {3, 4}, "Expected dim2 of lora_keys to have a size in [3, 4]")
    kind = {"bfloat16": np.dtype("V2")}.get(pretrained["dtype"]) or np.dtype(pretrained["dtype"])
    demand(weights.dtype == kind, "Expected lora weights to be the same data type as base model")
    names = {MODULES[name]: name for name in lora["lora_target_modules"]}
    for module, layer, rank, *_ in keys[0].tolist():
        demand(0 <= layer < pretrained["num_hidden_layers"], "Expected layerId to be in the range")
        demand(module in names, f"lora module {module} not enabled for this model")
        demand(0 < rank <= lora["max_lora_rank"], f"Invalid low_rank ({rank})")
        values = rank * sum(_sizes(names[module], pretrained))
        demand(values <= weights.shape[2], f"lora_weights has to few values for {names[module]}")
    return int(weights.nbytes)


def _sizes(module: str, pretrained: Mapping[str, Any]) -> tuple[int, int]:
    """Return the inputs and outputs of a module."""
    hidden, heads = pretrained["hidden_size"], pretrained["num_attention_heads"]
    if module.startswith("mlp"):
        return hidden, pretrained["intermediate_size"]
    if module[-1] in "kv":
        heads = pretrained["num_key_value_heads"]
    return hidden, heads * pretrained.get("head_size", hidden // pretrained["num_attention_heads"])


def read_engine(folder: Path) -> dict[str, Any]:
    """Return config.json of an engine's folder, whose rank 0 must be there."""
    import json  # noqa: PLC0415

    for name in ("config.json", "rank0.engine"):
        demand((folder / name).is_file(), f"{folder / name} does not exist")
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return found
