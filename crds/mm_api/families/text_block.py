"""Weights of a language model's blocks, and what is around them."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Which weights the blocks of a language model have, and its embeddings."""

    gated: bool = False
    qkv_bias: bool = False
    key_bias: bool = True
    """Whisper alone has biases of queries and values but none of keys."""
    dense_bias: bool = False
    mlp_bias: bool = False
    norm_vectors: int = 1
    """Vectors of a norm: 1 RMSNorm, 2 LayerNorm."""
    norms: int = 2
    """In a block without cross attention."""
    head_norms: bool = False
    """Queries and keys of a head have a norm each."""
    position_offset: int | None = None
    """Rows beyond the positions of a learned table; None: rotary, relative or sinusoidal."""
    embedding_norm: bool = False
    final_norm: bool = True
    relative_buckets: bool = False
    """T5: a table of 32 buckets x heads in the first block of each stack."""
    extra_rows: int = 0
    """Rows of the embedding beyond vocab_size (mllama: 8)."""
    adapters: bool = False
    """The runtime's layout of adapters names the family's modules (LLaMA's and BART's)."""


LLAMA = TextBlock(gated=True, adapters=True)
QWEN2 = replace(LLAMA, qkv_bias=True)
