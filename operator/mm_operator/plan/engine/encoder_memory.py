"""Towers on the GPU: weights, activations at the largest profile; and what their export takes."""

from mm_api.documents.model_facts import ModelFacts
from mm_api.families.family import Family
from mm_api.vision_runs import heads_of
from mm_operator.plan.engine.weights import stacks, text_parameters

_NUMBER_BYTES = 2

_ACTIVATION_COPIES = 8
"""Activations of a running block: its input, three projections, four times the width inside.
Attention without a mask is taken as fused: it stores no scores."""

FRAME_SAMPLES = 160
"""Samples of a frame of audio, at every family's rate."""

_SCORE_COPIES = 3
"""Scores in 16 bits and their softmax in 32: so multimodal_builder.py exports Qwen2-VL's attention.
Not measured: TensorRT stores fewer where it fuses them."""

_FLOAT32_BYTES = 4

_LIBRARIES_BYTES = 752 << 20
"""Torch, transformers and the exporter."""

_COPIES = 6.75
"""Copies of the half's weights in float32: the module, the program made of it, the graph, its file
and the checker's. Peaks of the step (resident, to ONNX) on CLIP towers of 87, 334 and 1,166 MiB
(ViT-L/14): 1,295, 2,832 and 8,464 MiB. Of the second 600 MiB were files, which the kernel can drop.
A half of more than 2 GiB, whose weights lie beside the graph, was not measured."""


def vision_engine_bytes(facts: ModelFacts, family: Family) -> int:
    return vision_parameters(facts, family) * _NUMBER_BYTES


def vision_parameters(facts: ModelFacts, family: Family) -> int:
    """Return the weights of towers and projectors: what the language model leaves of the total."""
    if facts.vision is None and facts.audio is None:
        return 0
    return max(0, facts.parameters - text_parameters(facts, family))


def is_one_sequence(facts: ModelFacts, family: Family) -> bool:
    """Return whether the engine reads a batch as one sequence, in which a mask parts the images."""
    return family.layout.masked and facts.vision is not None and facts.vision.merge_size is not None


def vision_activation_bytes(
    facts: ModelFacts, family: Family, batch: int, *, stores_scores: bool = False
) -> int:
    """Return the peak of a full batch: blocks, and the attention mask where the engine takes one.

    Qwen2-VL's mask spans every patch of the batch (20,736 patches: 860 MB, #features), and so do
    the scores of each head, which an engine of upstream's builder stores; mllama's mask spans the
    tiles of one image.
    """
    vision = facts.vision
    if vision is None or not batch:
        return 0
    positions = family.layout.positions_per_tile(vision)
    blocks = batch * positions * vision.hidden_size * _ACTIVATION_COPIES
    mask = scores = 0
    if is_one_sequence(facts, family):
        mask = (batch * positions) ** 2
        scores = _SCORE_COPIES * heads_of(vision) * mask if stores_scores else 0
    elif family.layout.masked:
        mask = batch * positions**2
    return (blocks + mask + scores) * _NUMBER_BYTES


def audio_activation_bytes(facts: ModelFacts, family: Family, step: int) -> int:
    """Return the peak of as many of the longest recordings as fill a step of tokens.

    Each has a hundred frames a second in front of the tower's blocks, as wide as those.
    """
    audio, count, encoder = facts.audio, family.audio_features, facts.encoder
    if audio is not None and count is not None:
        width, features = audio.hidden_size, count(audio.most_samples)
        frames = audio.most_samples // FRAME_SAMPLES
    elif encoder is not None and encoder.mel_bins and encoder.max_positions:
        width, features = encoder.hidden_size, encoder.max_positions
        frames = 2 * features
    else:
        return 0
    recordings = max(1, step // features)
    return recordings * frames * width * _ACTIVATION_COPIES * _NUMBER_BYTES


def export_bytes(facts: ModelFacts, family: Family) -> int:
    """Return what the step export-vision takes.

    Beside the half it loads what surrounds a language model without layers: its embedding and its
    output matrix.
    """
    around = stacks(facts, family)[-1]
    matrices = around.embedding
    if around.head is not None and not facts.text.tied_embeddings:
        matrices += around.head.parameters
    copies = int(_COPIES * vision_parameters(facts, family))
    return _LIBRARIES_BYTES + (copies + matrices) * _FLOAT32_BYTES
