"""Classes of TensorRT-LLM's PyTorch backend whose checkpoints are `generic` here.

Of families with a record, the record says it. Sources: @register_auto_model in
tensorrt_llm/_torch/models, and the multimodal table of docs/source/models/supported-models.md.
"""

from mm_api.documents.model_facts import ModelFacts
from mm_api.families.family import Family, PyTorchServing

CLASSES: dict[str, PyTorchServing] = {
    # modeling_llama.py; with images in the support matrix of 1.0 (docs/source/reference).
    "Llama4ForConditionalGeneration": PyTorchServing(images=True),
    # modeling_qwen3vl_moe.py: pull request 9689; that of the dense class (9060, 1.2.0) is on top.
    "Qwen3VLMoeForConditionalGeneration": PyTorchServing(images=True, since="1.2.0"),
}
"""`architectures[0]` of config.json -> what trtllm-serve does with it."""

UNREAD = frozenset(
    {
        "Exaone4_5_ForConditionalGeneration",
        "Gemma4ForConditionalGeneration",
        "Gemma4UnifiedForConditionalGeneration",
        "InklingForConditionalGeneration",
        "KimiK25ForConditionalGeneration",
        "MiniCPMV4_6ForConditionalGeneration",
        "MiniMaxM3SparseForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
        "Step3p7ForConditionalGeneration",
    }
)
"""Classes that the table of a later commit has (supported-models.md at 00b6d5a2). Which release has
them first, what its server takes and what it keeps was not read, so none is planned."""


def pytorch_of(family: Family, facts: ModelFacts) -> PyTorchServing | None:
    """Return what trtllm-serve's PyTorch backend does with a checkpoint; None: it has no class."""
    if family.pytorch is not None or family.architectures:
        return family.pytorch
    return CLASSES.get(facts.architecture)
