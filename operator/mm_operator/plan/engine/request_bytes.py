"""What one request holds: its encoder output, and the pixels that become it."""

from mm_api.documents.model_facts import ModelFacts
from mm_api.dtypes import DTYPE_BYTES
from mm_api.families.family import Family, Kind
from mm_operator.plan.engine.limits import Limits
from mm_operator.plan.engine.units import CUDA_ROUNDING_BYTES, ceil_to

_MEL_BYTES = 2


def output_bytes(facts: ModelFacts, family: Family, limits: Limits, dtype: str) -> int:
    """Return S: what one request holds on the GPU, each tensor rounded up to 512 (#pools)."""
    text, features = facts.text, limits.request_features
    if family.kind is Kind.ENCODER_DECODER:
        encoder = facts.encoder
        bins = encoder.mel_bins if encoder else None
        if facts.vision is not None:
            rows = limits.engine.max_images_per_request * limits.features_per_image
            size = rows * text.hidden_size * DTYPE_BYTES[dtype]
            return ceil_to(size, CUDA_ROUNDING_BYTES)
        return ceil_to((bins or 0) * features * _MEL_BYTES, CUDA_ROUNDING_BYTES)
    table = ceil_to(features * facts.row_size * DTYPE_BYTES[dtype], CUDA_ROUNDING_BYTES)
    if family.kind is Kind.PROMPT_TABLE and family.has_engines:
        length = text.max_position_embeddings
    else:
        length = limits.engine.max_seq_len
    extra = family.layout.extra_output_bytes(length, text.head_size, features) if features else 0
    return table + ceil_to(extra, CUDA_ROUNDING_BYTES)


def image_side(facts: ModelFacts, family: Family) -> int:
    """Return the side of the square that pixels of one image, or tile, fill."""
    return 0 if facts.vision is None else family.layout.pixels_side(facts.vision)


def squares_of(facts: ModelFacts, family: Family, images: int, backend: str) -> int:
    """Return how many squares of pixels the images of a request become at the most."""
    vision = facts.vision
    if vision is None or not images:
        return 0
    if family.kind is Kind.CROSS_ATTENTION:
        return images * (vision.max_tiles or 1)
    return family.request_tiles(vision, images, backend)
