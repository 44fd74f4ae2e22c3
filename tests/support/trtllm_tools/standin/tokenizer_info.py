"""generate_xgrammar_tokenizer_info.py: the table of a fast tokenizer, as upstream writes it."""

import json
from pathlib import Path

from arguments import parse, refuse
from files import read_json


def main(program: str) -> None:
    """Write the table: names of tokens by their ids, the tokenizer itself, its end token."""
    arguments = parse(program)
    for name in ("model_dir", "output_dir"):
        if getattr(arguments, name) is None:
            refuse(f"the following arguments are required: --{name}")
    folder, output = Path(arguments.model_dir), Path(arguments.output_dir)
    tokenizer = read_json(folder / "tokenizer.json")
    config = read_json(folder / "tokenizer_config.json")
    if "model" not in tokenizer:
        refuse("data did not match any variant of untagged enum ModelWrapper")
    known = tokenizer["model"]["vocab"]
    ids = dict(known) if isinstance(known, dict) else {one: at for at, (one, _) in enumerate(known)}
    ids |= {one["content"]: one["id"] for one in tokenizer.get("added_tokens", ())}
    end = config.get("eos_token")
    table = {
        # Places, not ids: a vocabulary with gaps moves up, as upstream's does.
        "encoded_vocab": sorted(ids, key=lambda name: ids[name]),
        "tokenizer_str": json.dumps(tokenizer),
        "stop_token_ids": [ids.get(end["content"] if isinstance(end, dict) else end)],
    }
    output.mkdir(parents=True, exist_ok=True)
    (output / "xgrammar_tokenizer_info.json").write_text(json.dumps(table))
