"""Host memory that the export of a vision half takes."""

from mm_api.documents.model_facts import ModelFacts
from mm_api.families.family import Family
from mm_operator.plan.engine.encoder_memory import vision_parameters
from mm_operator.plan.engine.weights import stacks

_FLOAT32_BYTES = 4

_LIBRARIES_BYTES = 752 << 20
"""Torch, transformers and the exporter."""

_COPIES = 6.75
"""Copies of the half's weights in float32: the module, the program made of it, the graph, its file
and the checker's. Peaks of the step (resident, to ONNX) on CLIP towers of 87, 334 and 1,166 MiB
(ViT-L/14): 1,295, 2,832 and 8,464 MiB. Of the second 600 MiB were files, which the kernel can drop.
A half of more than 2 GiB, whose weights lie beside the graph, was not measured."""


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
