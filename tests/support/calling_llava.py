"""A LLaVA checkpoint with random weights that can say any text: its tokens are bytes.

What it says is noise; a form makes its answers the calls, the JSON or the words that tests read.
"""

from pathlib import Path

from mm_runtime.serving.prompts.byte_letters import byte_letters
from support.random_llava import save_llava

BEGIN, END, PAD, IMAGE = 256, 257, 258, 259
CONTROL = ("<s>", "</s>", "<pad>", "<image>", "[TOOL_CALLS]")
SIZE = 256 + len(CONTROL)
POSITIONS = 2048
LIMITS = {"max_input_len": 1536, "max_seq_len": POSITIONS, "max_num_tokens": 4096}
"""Of an engine whose prompts may hold functions."""


def write_calling_llava(directory: Path, template: str) -> Path:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415 (as torch)

    letters = byte_letters()
    vocabulary = {letters[byte]: byte for byte in range(256)}
    vocabulary |= {token: 256 + at for at, token in enumerate(CONTROL)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    named = {"additional_special_tokens": ["<image>", "[TOOL_CALLS]"]}
    # vLLM's kernels for CPUs have no heads of less than 32.
    sizes = {"head_dim": 32, "max_position_embeddings": POSITIONS}
    return save_llava(directory, tokenizer, named, template, **sizes)
