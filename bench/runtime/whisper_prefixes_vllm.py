"""One Whisper checkpoint in vLLM itself, without its server, after each prefix of a question.

vLLM's endpoints write the prefix themselves; only here it can be another. Run by the Python of
`.venv-vllm`, from published_whisper.py:

    python whisper_prefixes_vllm.py CHECKPOINT SAMPLES.npz QUESTIONS.json RESULT.json

Questions: name -> `prefix` (ids) and `drawn` (more of SamplingParams). Results: name -> `texts` and
`end`, the probability of the end token at the first step of each, None where it is not among the
three likeliest.
"""

import importlib
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

RATE = 16_000
PLACES = 448
TOKENS = 100


def main() -> None:
    """Load, generate, write."""
    checkpoint, samples, questions, result = map(Path, sys.argv[1:])
    vllm: Any = importlib.import_module("vllm")
    with np.load(samples) as file:
        said = [file[name] for name in file.files]
    model = vllm.LLM(
        str(checkpoint), dtype="float32", enforce_eager=True, max_model_len=PLACES, max_num_seqs=8
    )
    end = json.loads((checkpoint / "config.json").read_text())["eos_token_id"]
    found: dict[str, Any] = {"version": vllm.__version__, "tasks": list(model.supported_tasks)}
    for name, question in json.loads(questions.read_text()).items():
        drawn = {"temperature": 0, "max_tokens": TOKENS, "logprobs": 3} | question["drawn"]
        begun = {"prompt_token_ids": question["prefix"]}
        prompts = [
            {
                "encoder_prompt": {"prompt": "", "multi_modal_data": {"audio": (one, RATE)}},
                "decoder_prompt": begun,
            }
            for one in said
        ]
        rows = [one.outputs[0] for one in model.generate(prompts, vllm.SamplingParams(**drawn))]
        first = [one.logprobs[0].get(end) for one in rows]
        found[name] = {
            "texts": [one.text for one in rows],
            "end": [one and math.exp(one.logprob) for one in first],
        }
    result.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
