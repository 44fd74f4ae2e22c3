"""Weights of a language model, matrix by matrix: parameters of the checkpoint, bytes of a rank.

TensorRT-LLM splits every linear layer over the ranks, the output matrix too; the embedding, norms
and biases of row-split layers stay unsplit on each rank (converters' defaults: no
--use_parallel_embedding). Both engines of an encoder-decoder hold the shared embedding (#encoders),
and a tied output matrix is stored besides the embedding.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from mm_api.documents.model_facts import EncoderFacts, ExpertFacts, ModelFacts, TextFacts
from mm_api.dtypes import DTYPE_BYTES
from mm_api.families.family import Family, Kind
from mm_api.families.text_block import TextBlock
from mm_operator.plan.engine.units import ceil_to

GROUP_SIZE = 128
"""Rows that share a scale in INT4 AWQ (--awq_block_size)."""
RELATIVE_BUCKETS = 32
_SCALE_BYTES = 4
_CONV_WIDTH = 3
_QUANTIZED_BITS = {
    "FP8": 8,
    "INT8WeightOnly": 8,
    "INT4WeightOnly": 4,
    "INT4AWQ": 4,
    "SmoothQuant": 8,
    "NVFP4": 4,
}
_FP4_GROUP, _FP4_ROWS, _FP4_GROUPS = 16, 128, 4
"""Numbers of a row that share a scale; rows, and scales of a row, are padded to multiples
(NVFP4LinearMethod.create_weights of tensorrt_llm/_torch/modules/linear.py)."""
_FP4_SCALARS = 4
"""Scalars of a matrix, in 32 bits: scales of inputs, of weights, both multiplied, and one
inverse."""


@dataclass(frozen=True, slots=True)
class Split:
    """How layers are spread: every layer over `ranks` GPUs, and the layers over `stages`."""

    ranks: int = 1
    stages: int = 1
    stage: int = 0
    expert_ranks: int = 1
    """Among `ranks`, how many share the experts of a layer among them; each expert is spread over
    the others."""

    @property
    def first(self) -> bool:
        """Return whether the stage reads tokens: it holds the embedding."""
        return self.stage == 0

    @property
    def last(self) -> bool:
        """Return whether the stage writes tokens: it holds the output matrix."""
        return self.stage == self.stages - 1


@dataclass(frozen=True, slots=True)
class Linear:
    """`count` equal linear layers; column layers split their outputs, row layers their inputs."""

    count: int
    outputs: int
    inputs: int
    biases: int
    split: Literal["column", "row"]
    experts: int = 1
    """Layers that are one of as many, each for a part of the tokens."""

    @property
    def parameters(self) -> int:
        return self.count * (self.outputs * self.inputs + self.biases)


@dataclass(frozen=True, slots=True)
class Attention:
    """The heads of one attention layer."""

    hidden: int
    heads: int
    key_value_heads: int
    head_size: int

    def on_rank(self, ranks: int) -> "Attention":
        """Return one rank's share; fewer key-value heads than ranks are repeated."""
        return Attention(
            self.hidden,
            -(-self.heads // ranks),
            max(1, self.key_value_heads // ranks),
            self.head_size,
        )

    def qkv(self, count: int, style: TextBlock) -> Linear:
        """Return the fused projection to queries, keys and values."""
        queries, keys = self.heads * self.head_size, self.key_value_heads * self.head_size
        biased = queries + keys * (2 if style.key_bias else 1)
        return Linear(
            count, queries + 2 * keys, self.hidden, biased if style.qkv_bias else 0, "column"
        )


@dataclass(frozen=True, slots=True)
class Stack:
    """The weights of one engine."""

    attentions: tuple[tuple[int, Attention], ...]
    linears: tuple[Linear, ...]
    replicated: int
    """Elements that every rank holds: norms, positions, convolutions."""
    embedding: int
    head: Linear | None
    style: TextBlock

    @property
    def block_parameters(self) -> int:
        """Return everything but embedding and output matrix."""
        fused = sum(heads.qkv(count, self.style).parameters for count, heads in self.attentions)
        return fused + sum(linear.parameters for linear in self.linears) + self.replicated

    @property
    def matrix_elements(self) -> int:
        fused = (heads.qkv(count, self.style) for count, heads in self.attentions)
        return sum(one.count * one.outputs * one.inputs for one in (*fused, *self.linears))

    def rank_bytes(self, split: Split, *, dtype_bytes: int, quantization: str | None) -> int:
        """Return the bytes on one rank; norms are counted in full on every stage."""
        ranks, stages = split.ranks, split.stages
        linears: list[Linear] = [
            *(
                heads.on_rank(ranks).qkv(count // stages, self.style)
                for count, heads in self.attentions
            ),
            *(_share(_of_stage(one, stages), split) for one in self.linears),
        ]
        total = sum(_linear_bytes(linear, dtype_bytes, quantization) for linear in linears)
        if self.head is not None and split.last:  # quantize.py leaves the output matrix as it is
            total += _linear_bytes(_share(self.head, split), dtype_bytes, None)
        return total + (self.replicated + self.embedding * split.first) * dtype_bytes


def stacks(facts: ModelFacts, family: Family) -> tuple[Stack, ...]:
    """Return the engines' weights: the language model, or encoder and decoder."""
    if facts.encoder is None or family.kind is not Kind.ENCODER_DECODER:
        return (_decoder(facts.text, family, cross_attention=False),)
    return (
        _encoder(facts.encoder, facts.text, family),
        _decoder(facts.text, family, cross_attention=True),
    )


def text_parameters(facts: ModelFacts, family: Family) -> int:
    """Return the language model's weights in the checkpoint, where shared ones stand once."""
    parts = stacks(facts, family)
    total = sum(part.block_parameters for part in parts) + parts[-1].embedding
    head = parts[-1].head
    if head is not None and not facts.text.tied_embeddings:
        total += head.parameters
    return total


def weights_bytes(
    facts: ModelFacts, family: Family, split: Split, *, dtype: str, quantization: str | None
) -> int:
    """Return the bytes of the language model's engines on one rank.

    Which matrices a checkpoint keeps in its dtype is not known here: of a pipeline, every stage is
    planned with all of them.
    """
    engines = sum(
        part.rank_bytes(split, dtype_bytes=DTYPE_BYTES[dtype], quantization=quantization)
        for part in stacks(facts, family)
    )
    stored = facts.quantization
    if stored is None:
        return engines
    kept = max(0, matrix_elements(facts, family) - stored.quantized_parameters)
    bits = 8 * DTYPE_BYTES[dtype] - _QUANTIZED_BITS[stored.weights]
    return engines - (-kept * bits // (8 * split.ranks))


def matrix_elements(facts: ModelFacts, family: Family) -> int:
    """Return the numbers of the matrices that a quantizer changes, without the output matrix."""
    return sum(part.matrix_elements for part in stacks(facts, family))


def _of_stage(linear: Linear, stages: int) -> Linear:
    layers = linear.count // linear.experts
    return replace(linear, count=-(-layers // stages) * linear.experts)


def _share(linear: Linear, split: Split) -> Linear:
    ranks = split.ranks
    if linear.experts > 1:
        held = -(-linear.experts // split.expert_ranks)
        linear = replace(linear, count=linear.count // linear.experts * held)
        ranks //= split.expert_ranks
    if linear.split == "column":
        outputs = -(-linear.outputs // ranks)  # the vocabulary is padded to a multiple
        biases = -(-linear.biases // ranks)
        return Linear(linear.count, outputs, linear.inputs, biases, linear.split)
    inputs = -(-linear.inputs // ranks)
    return Linear(linear.count, linear.outputs, inputs, linear.biases, linear.split)


def _linear_bytes(linear: Linear, dtype_bytes: int, quantization: str | None) -> int:
    elements = linear.outputs * linear.inputs
    if quantization is None:
        return linear.count * (elements + linear.biases) * dtype_bytes
    scales = {
        "FP8": 2 * _SCALE_BYTES,
        "INT8WeightOnly": linear.outputs * dtype_bytes,
        "INT4WeightOnly": linear.outputs * dtype_bytes,
        "INT4AWQ": (-(-linear.inputs // GROUP_SIZE) * linear.outputs + linear.inputs) * dtype_bytes,
        "SmoothQuant": linear.outputs * _SCALE_BYTES,
        "NVFP4": (
            ceil_to(linear.outputs, _FP4_ROWS)
            * ceil_to(-(-linear.inputs // _FP4_GROUP), _FP4_GROUPS)
        )
        + _FP4_SCALARS * _SCALE_BYTES,
    }[quantization]
    packed = -(-elements * _QUANTIZED_BITS[quantization] // 8)
    return linear.count * (packed + scales + linear.biases * dtype_bytes)


def _block(
    layers: int, attention: Attention, inner: int, style: TextBlock, *, gated: bool
) -> Iterator[Linear]:
    """Yield a block's layers beside the fused projection."""
    hidden = attention.hidden
    bias = hidden if style.dense_bias else 0
    yield Linear(layers, hidden, attention.heads * attention.head_size, bias, "row")
    rising = 2 if gated else 1
    yield Linear(rising * layers, inner, hidden, inner if style.mlp_bias else 0, "column")
    yield Linear(layers, hidden, inner, hidden if style.mlp_bias else 0, "row")


def _sparse(experts: ExpertFacts, layers: int, hidden: int) -> Iterator[Linear]:
    """Yield the perceptrons of layers with experts and without; all are gated."""
    widths = [
        (layers - experts.layers, experts.dense_size, 1),
        (experts.layers * (experts.shared_size is not None), experts.shared_size or 1, 1),
        (experts.layers * experts.count, experts.size, experts.count),
    ]
    for count, inner, among in widths:
        if count:
            yield Linear(2 * count, inner, hidden, 0, "column", among)
            yield Linear(count, hidden, inner, 0, "row", among)


def _around(family: Family, *, hidden: int, heads: int, positions: int | None) -> int:
    """Return elements around the blocks: positions, norms in front of and behind them."""
    rows = family.text
    norm = family.text.norm_vectors * hidden
    total = norm * rows.final_norm + norm * rows.embedding_norm
    if rows.position_offset is not None and positions is not None:
        total += (positions + rows.position_offset) * hidden
    return total + RELATIVE_BUCKETS * heads * rows.relative_buckets


def _decoder(text: TextFacts, family: Family, *, cross_attention: bool) -> Stack:
    style = family.text
    gated = style.gated if text.gated_mlp is None else text.gated_mlp
    hidden, layers = text.hidden_size, text.layers
    heads = Attention(hidden, text.attention_heads, text.key_value_heads, text.head_size)
    linears = list(_block(layers, heads, text.intermediate_size, style, gated=gated))
    routers = 0
    if text.experts is not None:
        linears = [linears[0], *_sparse(text.experts, layers, hidden)]
        routers = text.experts.layers * text.experts.count * hidden
    norms = style.norm_vectors * hidden * layers * (3 if cross_attention else style.norms)
    norms += 2 * text.head_size * layers * style.head_norms
    attentions = [(layers, heads)]
    if cross_attention:
        attentions.append((layers, heads))
        linears.append(linears[0])
    # Cross-attention layers of mllama: norms of queries and keys, and two gates.
    norms += (text.cross_attention_layers or 0) * (2 * text.head_size + 2)
    rows = text.vocabulary_size
    return Stack(
        attentions=tuple(attentions),
        linears=tuple(linears),
        replicated=norms
        + routers
        + _around(
            family,
            hidden=hidden,
            heads=text.attention_heads,
            positions=text.max_position_embeddings,
        ),
        embedding=(rows + family.text.extra_rows) * hidden,
        head=Linear(1, rows, hidden, 0, "column"),
        style=style,
    )


def _encoder(encoder: EncoderFacts, text: TextFacts, family: Family) -> Stack:
    style = family.text
    gated = style.gated if text.gated_mlp is None else text.gated_mlp
    hidden, layers = encoder.hidden_size, encoder.layers
    heads = Attention(hidden, encoder.attention_heads, encoder.attention_heads, encoder.head_size)
    replicated = style.norm_vectors * hidden * layers * 2 + _around(
        family, hidden=hidden, heads=encoder.attention_heads, positions=encoder.max_positions
    )
    reads_audio = encoder.mel_bins is not None
    if encoder.mel_bins is not None:
        replicated += (encoder.mel_bins + hidden) * hidden * _CONV_WIDTH + 2 * hidden
    return Stack(
        attentions=((layers, heads),),
        linears=tuple(_block(layers, heads, encoder.intermediate_size, style, gated=gated)),
        replicated=replicated,
        embedding=0 if reads_audio else text.vocabulary_size * hidden,
        head=None,
        style=style,
    )
