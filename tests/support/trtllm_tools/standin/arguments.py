"""The command line of one program of one version, built from the table beside this file."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NoReturn

TABLE = json.loads((Path(__file__).parent / "options.json").read_text())
VERSION: str = TABLE["version"]
TYPES = {"int": int, "str": str}
ALIASES = {"max_multimodal_len": "max_prompt_embedding_table_size"}
ALIASES["max_decoder_seq_len"] = "max_seq_len"


def parse(program: str) -> argparse.Namespace:
    """Parse sys.argv; exits with 2 on what this version does not take, as argparse does."""
    parser = argparse.ArgumentParser(prog=program)
    for name, option in TABLE["programs"][program].items():
        keywords: dict[str, Any] = dict(option)
        if "type" in keywords:
            keywords["type"] = TYPES[keywords["type"]]
        parser.add_argument(f"--{name}", dest=ALIASES.get(name, name), **keywords)
    print(f"[TensorRT-LLM] TensorRT-LLM version: {VERSION} (recorded tool {program})")
    return parser.parse_args()


def refuse(message: str) -> NoReturn:
    print(f"ValueError: {message}", file=sys.stderr)
    sys.exit(1)
