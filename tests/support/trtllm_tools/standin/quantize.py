"""quantize.py: a Hugging Face folder becomes a quantized TensorRT-LLM checkpoint."""

from pathlib import Path

from arguments import parse, refuse
from convert import check_split, decoder_only, ranks_of, write_part

ALGORITHMS = {
    "fp8": "FP8",
    "int8_sq": "W8A8_SQ_PER_CHANNEL",
    "int4_awq": "W4A16_AWQ",
    "w4a8_awq": "W4A8_AWQ",
    "int8_wo": "W8A16",
    "int4_wo": "W4A16",
}


def main(program: str) -> None:
    arguments = parse(program)
    if arguments.model_dir is None:
        refuse("One of source checkpoint (model_dir, nemo_ckpt_path) must be specified")
    config = decoder_only(arguments, Path(arguments.model_dir), program)
    config["quantization"] = {
        "quant_algo": ALGORITHMS.get(arguments.qformat or ""),
        "kv_cache_quant_algo": (arguments.kv_cache_dtype or "").upper() or None,
    }
    check_split(config, arguments)
    samples = arguments.calib_size or 512
    for done in (0, samples // 2, samples):
        print(f"Calibrating batch {done}/{samples} {100 * done // samples}%")
    seed = f"{program}{arguments.qformat}{samples}"
    write_part(Path(arguments.output_dir), config, ranks_of(arguments), seed)
