"""How TensorRT-LLM on PyTorch of one version is served for a plan: flags, and its file.

`trtllm-serve`, or Triton where its ports are published.
The server reads a checkpoint of Hugging Face, so nothing is built; the plan's limits reach it here.
"""

import shlex

import yaml
from pydantic import JsonValue

from mm_api.contract import HTTP_PORT, LLM_PORT
from mm_api.documents.engine_manifest import TOKENIZER_FOLDER
from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.trtllm_build import Command
from mm_api.documents.trtllm_serve import TRITON_CONFIG, TrtllmServe, keeps_forms
from mm_api.families.checkpoint_files import Decoder
from mm_api.families.family import Family, Kind
from mm_api.families.upstream_classes import pytorch_of
from mm_api.trtllm_layout import ENGINES, TOKENIZER_TABLE
from mm_operator.plan.engine.backend import Sizes
from mm_operator.plan.engine.request import PlanRequest, Target
from mm_operator.plan.engine.serve_options import merged
from mm_operator.plan.engine.tables import table, version_of


def folded(argv: list[str]) -> str:
    """Return one command, each flag on a line of its own."""
    parts: list[str] = []
    for word in argv:
        quoted = shlex.quote(word)
        if word.startswith("--") or not parts:
            parts.append(quoted)
        else:
            parts[-1] += f" {quoted}"
    return " \\\n  ".join(parts)


HOST = "127.0.0.1"
"""Only the gateway beside it connects: the server has no limits of its own, and fetches any URL."""

OPTIONS_FILE = "serve.yaml"
REPOSITORY = "model_repository"
MODEL_FILE = f"{REPOSITORY}/tensorrt_llm/1/model.yaml"
"""Where upstream's model for the LLM API looks for its options."""

_RANKS = {
    "tensor_parallel_size": "tp_size",
    "pipeline_parallel_size": "pp_size",
    "moe_expert_parallel_size": "ep_size",
}
"""Field of upstream's LlmArgs -> flag of trtllm-serve."""


def checkpoint_folder(model: str) -> str:
    """Return where the command finds the checkpoint.

    The server reports the folder's last part as the model's name
    (tensorrt_llm/serve/openai_server.py), and `trtllm-serve NAME` alone could be a subcommand.
    """
    return f"models/{model}"


def serve(target: Target, sizes: Sizes, version: str) -> TrtllmServe:
    """Return the server's command and its options."""
    limits, parallelism = sizes.limits.engine, target.spec.engine.parallelism
    folder, exposed = checkpoint_folder(target.model), target.spec.runtime.triton.expose
    values: dict[str, JsonValue] = {
        "max_batch_size": limits.max_batch_size,
        "max_num_tokens": limits.max_num_tokens,
        "max_seq_len": limits.max_seq_len,
        "max_beam_width": limits.max_beam_width,
    }
    ranks = (parallelism.tensor, parallelism.pipeline, parallelism.expert)
    for (field, flag), count in zip(_RANKS.items(), ranks, strict=True):
        if count > 1:
            values[field if exposed else flag] = count
    trusted = ("trust_remote_code",) if target.spec.model.trust_remote_code else ()
    options = _options(target, sizes, version)
    if exposed:
        argv = ["trtllm-llmapi-launch", "tritonserver", f"--model-repository={REPOSITORY}"]
        options = {"model": folder, "backend": "pytorch", **values, **options}
        options |= dict.fromkeys(trusted, True)
        # As in NVIDIA's guide for Qwen2.5-VL; without `multimodal` images are dropped in silence.
        options[TRITON_CONFIG] = {"max_batch_size": 0, "decoupled": False, "multimodal": True}
    else:
        argv = ["trtllm-serve", folder, "--backend", "pytorch"]
        argv += ["--host", HOST, "--port", str(HTTP_PORT)]
        argv += [part for name, value in values.items() for part in (f"--{name}", str(value))]
        argv += [f"--{name}" for name in trusted]
        argv += ["--extra_llm_api_options", OPTIONS_FILE]
    return TrtllmServe(
        version=version,
        tensor_parallel=parallelism.tensor,
        pipeline_parallel=parallelism.pipeline,
        checkpoint=folder,
        port=LLM_PORT if exposed else HTTP_PORT,
        argv=argv,
        options_file=MODEL_FILE if exposed else OPTIONS_FILE,
        options=options,
    )


def as_script(serving: TrtllmServe) -> str:
    """Return the shell commands that a person would start the server with."""
    options = yaml.safe_dump(serving.options, sort_keys=True)
    return "\n".join(
        [
            f"cat > {serving.options_file} <<'YAML'",
            f"{options}YAML",
            "",
            folded(serving.argv),
        ]
    )


def _options(target: Target, sizes: Sizes, version: str) -> dict[str, JsonValue]:
    cache: dict[str, JsonValue] = {
        # In the file and not as a flag: the file's kv_cache_config replaces the one made of flags
        # entirely (update_llm_args_with_extra_dict of tensorrt_llm/llmapi/llm_args.py).
        "free_gpu_memory_fraction": sizes.memory.kv_cache_free_gpu_memory_fraction,
        # Of images it is refused: blocks of two would be taken for equal, placeholders have one id
        # (docs/source/commands/trtllm-serve, Multimodal Serving).
        "enable_block_reuse": sizes.request.reuse,
    }
    options: dict[str, JsonValue] = {
        "kv_cache_config": cache,
        # Since 1.2 its default is 1024, below one image of most families.
        "max_input_len": sizes.limits.engine.max_input_len,
        "enable_iter_perf_stats": True,  # /metrics is empty without
    }
    served = pytorch_of(target.family, target.facts)
    if served is not None and sizes.limits.engine.max_images_per_request:
        options |= served.options
    if serves_forms(sizes.request, version):
        options["guided_decoding_backend"] = SERVE_BACKEND  # forms are dropped silently without
    if version_of(version) >= version_of("1.1.0"):
        options["return_perf_metrics"] = True  # /prometheus/metrics is empty without
    return merged(options, sizes.request.serve_options)


SERVE_BACKEND = "xgrammar"
"""What both of TensorRT-LLM's backends have; llguidance is trtllm-serve's alone."""


def tokenizer_info(
    request: PlanRequest, facts: ModelFacts, family: Family, version: str
) -> Command | None:
    """Return the command that writes the tokenizer's table; None: the engine has no use for it."""
    if request.guided_decoding == "Off" or _cannot_keep_forms(request, family, version):
        return None
    folder = family.trtllm.checkpoint_folder
    if facts.sentence_piece_model:
        folder = f"{ENGINES}/{TOKENIZER_FOLDER}"  # made before: what servers read
    elif family.checkpoint.decoder is Decoder.FOLDER:
        folder = f"{folder}/llm"
    argv = ["python3", table("tools")["guided"]["script"], "--model_dir", folder]
    return Command(argv=[*argv, "--output_dir", TOKENIZER_TABLE])


def serves_forms(request: PlanRequest, version: str) -> bool:
    return request.guided_decoding != "Off" and keeps_forms(version)


def _cannot_keep_forms(request: PlanRequest, family: Family, version: str) -> bool:
    # Of encoder-decoders it is not known, and TensorRT-LLM keeps no beams to a form.
    one_beam = family.kind is not Kind.ENCODER_DECODER and request.max_beam_width == 1
    return not keeps_forms(version) or not one_beam
