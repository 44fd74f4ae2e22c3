"""Qwen2-Audio: Whisper's encoder in front of Qwen2; a recording is four tokens in 160 ms.

TensorRT-LLM has no class of it, neither an engine's nor one of its PyTorch backend
(MODEL_ARCH_TO_MODULE of tensorrt_llm/_torch/models/_arch_index.py, 1.3.0rc).
"""

from dataclasses import replace

from mm_api.checkpoint.text import text_facts
from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes, invalid, section
from mm_api.documents.model_facts import AudioFacts
from mm_api.families.generic import GENERIC
from mm_api.families.image_layouts.layout import OWN
from mm_api.families.prompt import PromptStyle

AUDIO = {
    "d_model": 1280,
    "encoder_layers": 32,
    "encoder_attention_heads": 20,
    "num_mel_bins": 128,
    "max_source_positions": 1500,
}
"""Defaults of Qwen2AudioEncoderConfig."""

EXTRACTOR = {"sampling_rate": 16_000, "hop_length": 160, "chunk_length": 30}
"""Defaults of WhisperFeatureExtractor: samples a second, of a frame; seconds that it reads."""


LEAST_SAMPLES = 6 * 160 + 1
"""Two tokens. Of prompts whose recordings are one token each the class thinks that they are not
placed yet (`legacy_processing` of modeling_qwen2_audio.py)."""


def audio_features(samples: int) -> int:
    """Return the tokens of a recording: two frames a position, two positions a token."""
    frames = -(-samples // EXTRACTOR["hop_length"])
    return max(0, ((frames - 1) // 2 + 1 - 2) // 2 + 1)


def check_extractor(processor: JsonObject) -> Sizes:
    """Return the sizes of a WhisperFeatureExtractor; CheckpointError: it has another rate."""
    reads = Sizes(processor, EXTRACTOR, "preprocessor_config.json")
    for name in ("sampling_rate", "hop_length"):
        if reads(name) != EXTRACTOR[name]:
            raise invalid(
                f"preprocessor_config.json {name} is {reads(name)}; expected {EXTRACTOR[name]}"
            )
    return reads


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of a Qwen2-Audio checkpoint; CheckpointError: of other frames or rate."""
    size = Sizes(section(config, "audio_config") or {}, AUDIO, "audio_config")
    reads = check_extractor(processor)
    samples = reads("chunk_length") * reads("sampling_rate")
    positions = size("max_source_positions")
    if samples != 2 * positions * reads("hop_length"):
        raise invalid(
            f"preprocessor_config.json chunk_length is {reads('chunk_length')} seconds, and"
            f" audio_config.max_source_positions {positions} are {positions // 50}: the files are"
            " of two checkpoints"
        )
    audio = AudioFacts(
        hidden_size=size("d_model"),
        layers=size("encoder_layers"),
        attention_heads=size("encoder_attention_heads"),
        positions=positions,
        least_samples=LEAST_SAMPLES,
        most_samples=samples,
    )
    text = section(config, "text_config") or {}
    return Dimensions(text_facts({"model_type": "qwen2"} | text), audio=audio)


CHAT = (
    "{% set audio = namespace(count=0) %}{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}"
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{% if part['type'] == 'audio' %}"
    "{% set audio.count = audio.count + 1 %}"
    "Audio {{ audio.count }}: <|audio_bos|><|AUDIO|><|audio_eos|>\n"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""As Qwen2AudioProcessor writes conversations of checkpoints that bring no template."""


QWEN2_AUDIO = replace(
    GENERIC,
    name="qwen2-audio",
    title="Qwen2-Audio",
    architectures=("Qwen2AudioForConditionalGeneration",),
    model_type="qwen2_audio",
    recognised=lambda _: True,
    read=read,
    checkpoint=replace(GENERIC.checkpoint, loaded_as=None),
    prompt=PromptStyle(
        CHAT, audio="<|AUDIO|>", reads_images=False, opening="<|im_start|>", chat=CHAT
    ),
    on_reference=False,
    reads_images=False,
    audio_features=audio_features,
    layout=replace(OWN, features_per_image=lambda _: 0),
    trtllm=replace(GENERIC.trtllm, max_images_reason="the family reads audio and text"),
    notes=("a recording has at most 30 seconds, 750 tokens; a request 8 recordings",),
)
