"""Phi-4-multimodal: images and recordings in, each with LoRA matrices of the checkpoint's own.

Answers about images are made with the adapter of `vision-lora`, also where recordings stand beside
them, answers about recordings alone with that of `speech-lora`, and answers to texts without
(`set_adapter` of transformers' page of the model; the published modeling_phi4mm.py chooses so).

TensorRT-LLM's class, Phi4MMForCausalLM (tensorrt_llm/_torch/models/modeling_phi4mm.py), reads the
layout published first, `phi4mm`, imports its Python code, and applies the adapters only where a
request names their folders.
"""

from dataclasses import replace
from functools import cache
from math import ceil, floor

from mm_api.checkpoint.dimensions import Dimensions
from mm_api.checkpoint.text import decoder_sizes, text_facts
from mm_api.checkpoint.values import JsonObject, Sizes, invalid, section
from mm_api.checkpoint.vision import tower_sizes
from mm_api.documents.model_facts import AudioFacts, TextFacts, VisionFacts
from mm_api.families.backend_parts import BYTES_TENSORS, Serving
from mm_api.families.checkpoint_files import OwnAdapters
from mm_api.families.generic import GENERIC
from mm_api.families.image_layouts.layout import patches
from mm_api.families.image_layouts.own import OWN
from mm_api.families.prompt import PromptStyle

TEXT = decoder_sizes(3072, 8192, 32, 32, 200_064, 131_072) | {"num_key_value_heads": 8}
"""Defaults of Phi4MultimodalConfig."""

TOWER = tower_sizes(1152, 4304, 27, 16, 448, 14) | {"crop_size": 448}
"""Defaults of Phi4MultimodalVisionConfig."""

AUDIO = {"hidden_size": 1024, "num_blocks": 24, "num_attention_heads": 16, "time_reduction": 8}
"""Defaults of Phi4MultimodalAudioConfig."""

CROPS = 36
"""dynamic_hd of Phi4MultimodalImageProcessor where a checkpoint does not name it."""

SIDE = 16
"""Features along a side of the view of all of an image: the processor counts them as 256 in 16
lines, whatever its sizes are."""

EXTRACTOR = {
    "sampling_rate": 16_000,
    "hop_length": 160,
    "win_length": 400,
    "audio_compression_rate": 8,
    "audio_downsample_rate": 1,
}
"""Values of Phi4MultimodalFeatureExtractor: samples a second, from one frame to the next, of a
frame; frames of a token."""

POSITIONS = 500
"""Positions of the audio tower: it reads a longer recording in pieces that do not see each other
(Phi4MultimodalAudioModel.forward)."""

MOST_SAMPLES = POSITIONS * EXTRACTOR["audio_compression_rate"] * EXTRACTOR["hop_length"]
"""40 seconds."""


def audio_features(samples: int) -> int:
    """Return the tokens of a recording: eight frames, of those that are complete, a token."""
    frames = (samples - EXTRACTOR["win_length"]) // EXTRACTOR["hop_length"] + 1
    return max(0, -(-frames // EXTRACTOR["audio_compression_rate"]))


@cache
def _grids(most: int) -> list[tuple[int, int]]:
    """Return columns and rows of all grids by their number of crops, in the processor's order."""
    made = {
        (wide, high)
        for many in range(1, most + 1)
        for wide in range(1, many + 1)
        for high in range(1, many + 1)
        if wide * high <= most
    }
    return sorted(made, key=lambda grid: grid[0] * grid[1])


def grid_of(height: int, width: int, side: int, most: int) -> tuple[int, int]:
    """Return rows and columns of the crops of an image: `dynamic_preprocess` of its processor."""
    columns, rows = ceil(width / side), ceil(height / side)
    if columns * rows <= most:
        return rows, columns
    ratio, area = width / height, width * height
    best, least = (1, 1), float("inf")
    for wide, high in _grids(most):
        distance = abs(ratio - wide / high)
        if distance < least or (distance == least and area > 0.5 * side * side * wide * high):
            best, least = (wide, high), distance
    return best[1], best[0]


def rows_of_image(vision: VisionFacts, height: int, width: int) -> int:
    """Return the tokens of an image: those of its crops that show it, of its view, of line ends."""
    side, patch = vision.image_size, vision.patch_size
    rows, columns = grid_of(height, width, side, _crops(vision))
    wide, high = columns * side / width, rows * side / height
    unused_wide = columns * side - int(width * high) if high <= wide else 0
    unused_high = rows * side - int(height * wide) if wide < high else 0
    # Every second patch of what is left counts as a feature.
    across = -(-(2 * SIDE * columns - floor(unused_wide / patch)) // 2)
    down = -(-(2 * SIDE * rows - floor(unused_high / patch)) // 2)
    return down * (across + 1) + SIDE * (SIDE + 1) + 1


def _crops(vision: VisionFacts) -> int:
    return (vision.max_tiles or 2) - 1


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of a Phi-4-multimodal checkpoint.

    Raises:
        CheckpointError: a size of a wrong type or out of range, crops that the processor counts
            wrong, or audio at another rate than it is decoded to.
    """
    tower = Sizes(section(config, "vision_config") or {}, TOWER, "vision_config")
    audio = Sizes(section(config, "audio_config") or {}, AUDIO, "audio_config")
    reads = Sizes(processor, EXTRACTOR | {"dynamic_hd": CROPS}, "preprocessor_config.json")
    for name, expected in EXTRACTOR.items():
        if reads(name) != expected:
            raise invalid(f"preprocessor_config.json {name} is {reads(name)}; expected {expected}")
    crop, patch = tower("crop_size"), tower("patch_size")
    size = Sizes(section(processor, "size") or {}, {}, "preprocessor_config.json size")
    if crop != 2 * SIDE * patch or size("height", crop) != crop or size("width", crop) != crop:
        raise invalid(
            f"vision_config.crop_size is {crop} and patch_size {patch}, and the processor's size"
            f" {size('height', crop)} x {size('width', crop)}: expected squares of {2 * SIDE}"
            f" patches a side, for its view of all of an image is counted as {SIDE * SIDE} tokens"
        )
    crops = reads("dynamic_hd")
    # The most line ends has a column of all crops.
    most = crops * SIDE * (SIDE + 1) + SIDE * (SIDE + 1) + 1
    tied = bool(config.get("tie_word_embeddings", False))
    return Dimensions(
        text_facts(TEXT | config, tied_embeddings=tied, where=""),
        VisionFacts(
            hidden_size=tower("hidden_size"),
            layers=tower("num_hidden_layers"),
            image_size=crop,
            patch_size=patch,
            features_per_image=most,
            intermediate_size=tower("intermediate_size"),
            attention_heads=tower("num_attention_heads"),
            max_tiles=crops + 1,
        ),
        audio=AudioFacts(
            hidden_size=audio("hidden_size"),
            layers=audio("num_blocks"),
            attention_heads=audio("num_attention_heads"),
            positions=POSITIONS,
            least_samples=EXTRACTOR["win_length"],
            most_samples=MOST_SAMPLES,
        ),
    )


def adapted(text: TextFacts) -> dict[str, tuple[int, int]]:
    """Return the modules of a layer that adapters change, with the sizes of input and output."""
    hidden, wide = text.hidden_size, text.intermediate_size
    heads, pairs = text.attention_heads * text.head_size, text.key_value_heads * text.head_size
    return {
        "self_attn.qkv_proj": (hidden, heads + 2 * pairs),
        "self_attn.o_proj": (heads, hidden),
        "mlp.gate_up_proj": (hidden, 2 * wide),
        "mlp.down_proj": (wide, hidden),
    }


CHAT = (
    "{% for message in messages %}<|{{ message['role'] }}|>"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<|image|>"
    "{% elif part['type'] == 'audio' %}<|audio|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""As the model's page writes conversations, for checkpoints that bring no template."""


PHI4_MULTIMODAL = replace(
    GENERIC,
    name="phi4-multimodal",
    title="Phi-4-multimodal",
    architectures=("Phi4MultimodalForCausalLM",),
    model_type="phi4_multimodal",
    recognised=lambda _: True,
    read=read,
    checkpoint=replace(
        GENERIC.checkpoint,
        loaded_as=None,
        own_adapters=OwnAdapters("vision-lora", "speech-lora", adapted),
    ),
    prompt=PromptStyle(CHAT, "<|image|>", audio="<|audio|>", opening="<|", chat=CHAT),
    serving=Serving(
        ("ensemble", "preprocessing", "tensorrt_llm", "postprocessing"),
        (*BYTES_TENSORS, "audio_samples_input", "audio_lengths_input"),
        "the checkpoint's chat template",
    ),
    layout=replace(OWN, positions_per_tile=patches, rows_of_image=rows_of_image),
    audio_features=audio_features,
    notes=(
        "images are answered with the adapter `vision-lora`, recordings alone with `speech-lora`",
        "an image is a view and up to dynamic_hd crops, 256 tokens each and one for each line",
        "a recording has at most 40 seconds, 500 tokens; a request 8 recordings",
        "requests are decoded one after another, on a processor",
    ),
)
