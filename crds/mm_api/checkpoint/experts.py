"""Layers of experts: how many, how wide, and in which layers, as each class of text models says it.

Of other classes with experts nothing is known here: their layers count as dense ones.
"""

from mm_api.checkpoint.values import JsonObject, Sizes, invalid
from mm_api.documents.model_facts import ExpertFacts


def experts_of(kind: str, text: JsonObject) -> ExpertFacts | None:
    """Return the experts of a text model; None: none, or of an unknown class.

    `text`: its section, with the defaults of its class.
    """
    if kind == "llama4_text":
        return _llama4(text)
    if kind == "qwen3_vl_moe_text":
        return _qwen3(text)
    return None


def _llama4(text: JsonObject) -> ExpertFacts:
    """One expert of each layer reads all tokens; layers without experts are wider."""
    size = Sizes(
        text,
        {"num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1},
        "text_config",
    )
    layers = _listed(text, "moe_layers")
    sparse = (
        size("num_hidden_layers") // size("interleave_moe_layer_step")
        if layers is None
        else len(layers)
    )
    width = size("intermediate_size")
    return ExpertFacts(
        count=size("num_local_experts"),
        size=width,
        layers=sparse,
        of_a_token=size("num_experts_per_tok"),
        shared_size=width,
        dense_size=size("intermediate_size_mlp", 16384),
    )


def _qwen3(text: JsonObject) -> ExpertFacts:
    size = Sizes(
        text,
        {
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 1408,
            "decoder_sparse_step": 1,
        },
        "text_config",
    )
    step, dense = size("decoder_sparse_step"), _listed(text, "mlp_only_layers") or []
    sparse = [
        layer
        for layer in range(size("num_hidden_layers"))
        if layer not in dense and (layer + 1) % step == 0
    ]
    return ExpertFacts(
        # transformers 5 writes the first name, and reads either.
        count=size("num_local_experts", size("num_experts", 60)),
        size=size("moe_intermediate_size"),
        layers=len(sparse),
        of_a_token=size("num_experts_per_tok"),
        dense_size=size("intermediate_size"),
    )


def _listed(text: JsonObject, name: str) -> list[int] | None:
    value = text.get(name)
    if value is None or (isinstance(value, list) and all(type(one) is int for one in value)):
        return value
    raise invalid(f"text_config.{name} is {str(value)[:80]}; expected a list of layers")
