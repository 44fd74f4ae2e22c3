"""`python3 -m mm_runtime.quantization`: arguments, exit codes."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from mm_runtime.base.durable import writing_to
from mm_runtime.errors import RuntimeCommandError
from mm_runtime.quantization.program import Request, quantize

log = logging.getLogger("mm_runtime.quantization")


def main(argv: Sequence[str] | None = None) -> int:
    """Quantize one checkpoint; the last line of output says what went wrong."""
    parser = argparse.ArgumentParser(
        prog="python3 -m mm_runtime.quantization",
        description="Quantize the language model of a checkpoint with NVIDIA's Model-Optimizer.",
        allow_abbrev=False,
    )
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder, safetensors only")
    parser.add_argument("--output", type=Path, required=True, help="folder; must not exist")
    parser.add_argument("--format", choices=("FP8",), required=True, help="of the weights")
    parser.add_argument("--kv-cache", choices=("FP8",), required=True, help="of the cache")
    given = parser.parse_args(argv)
    logging.basicConfig(level="INFO", format="%(message)s", stream=sys.stderr)
    try:
        with writing_to(given.output.parent):
            quantize(Request(given.checkpoint, given.output, given.format, given.kv_cache))
    except RuntimeCommandError as error:
        log.error("%s", error)  # noqa: TRY400 (the message is written for a person)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
