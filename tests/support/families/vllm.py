"""Small checkpoints as vLLM reads them, and what transformers answers with the same files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mm_api.families import FAMILIES as RECORDS
from mm_runtime.gateway.media.audio import encode_wav
from mm_runtime.gateway.warmup.own_requests import encoded
from support.families import images, recordings, texts
from support.families.checkpoints import PATCH, SIDE, one_head
from support.families.expected import noise_image
from support.families.recordings import recording_part
from support.families.served import image_part
from support.families.words import END, begin_texts
from support.real_vllm import ANSWER_SECONDS

QUESTION = "what is in the image ?"
TOKENS = 12
LEAST_GAP = 1e-3
"""Between the two likeliest tokens of each step: what differs by less may be drawn either way."""


@dataclass(frozen=True)
class Files:
    """What a family's published checkpoints have and those of the other tests do not."""

    processor: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of processor_config.json."""

    named: Mapping[str, str] = field(default_factory=dict)
    """Tokens that tokenizer_config.json has names for."""

    config: Mapping[str, Any] = field(default_factory=dict)
    """Keys of config.json that are others than in the other tests."""

    breaks: int = 0
    """Line breaks around the tiles of an image: tokens of published tokenizers, not of these."""

    begins: bool = False
    """The tokenizer puts the begin token before each text."""

    causal: bool = False
    """Features of an image see those after them on GPUs alone."""

    images: int = 2
    recordings: int = 0
    """Of the largest question."""

    frames: int = 0
    """Of a video; 0: none is sent."""

    frame_size: tuple[int, int] = (60, 41)

    seed: int = 3
    """Of images whose answers differ, no two tokens as likely as each other."""


_CLIP = {
    "patch_size": PATCH,
    "vision_feature_select_strategy": "default",
    "num_additional_image_tokens": 1,
}
_ROWS = {"image_token": "[IMG]", "image_break_token": "[IMG_BREAK]", "image_end_token": "[IMG_END]"}
_SPLIT = {
    "image_token": "<image>",
    "fake_image_token": "<fake_token_around_image>",
    "global_image_token": "<global-img>",
    "end_of_utterance_token": "<end_of_utterance>",
}

FAMILIES = {
    "llava": Files("LlavaProcessor", _CLIP, begins=True),
    "llava-next": Files("LlavaNextProcessor", _CLIP, begins=True),
    "llava-onevision": Files(
        "LlavaOnevisionProcessor",
        {"num_image_tokens": 4, "vision_feature_select_strategy": "full"},
        # As all that are published: vLLM 0.32 packs views as these, whatever config.json says.
        config={"vision_aspect_ratio": "anyres_max_9"},
        images=1,
        frames=3,
        frame_size=(SIDE, SIDE),  # the gateway's resize is Pillow's, transformers' is torch's
    ),
    "qwen2-vl": Files("Qwen2VLProcessor", frames=4),
    "qwen2-5-vl": Files("Qwen2_5_VLProcessor", frames=3),
    "qwen3-vl": Files("Qwen3VLProcessor", seed=5),
    "internvl": Files(
        "InternVLProcessor",
        {"image_seq_length": 4},
        {
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
    ),
    "gemma3": Files(
        "Gemma3Processor",
        {"image_seq_length": 16},
        {
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
        },
        seed=14,
        causal=True,
    ),
    "mistral3": Files(
        "PixtralProcessor", {"patch_size": PATCH // 2, "spatial_merge_size": 2, **_ROWS}
    ),
    "pixtral": Files(
        "PixtralProcessor",
        {"patch_size": PATCH, "spatial_merge_size": 1, **_ROWS},
    ),
    "idefics3": Files("Idefics3Processor", {"image_seq_len": 4}, _SPLIT, breaks=4),
    "smolvlm": Files("SmolVLMProcessor", {"image_seq_len": 4}, _SPLIT, breaks=4),
    "qwen2-audio": Files("Qwen2AudioProcessor", images=0, recordings=2),
    "qwen2-5-omni": Files("Qwen2_5OmniProcessor", recordings=2),
}


def write_for_vllm(family: str, folder: Path) -> Path:
    files = FAMILIES[family]
    with one_head():
        (recordings if files.recordings else images).write(family, folder)
    settings = {"processor_class": files.processor, **files.settings}
    if files.recordings:  # transformers 5 writes both parts into one file, which 4 does not read
        parts = json.loads((folder / "processor_config.json").read_text())
        read = parts.get("image_processor", {}) | parts["feature_extractor"]
        (folder / "preprocessor_config.json").write_text(json.dumps(read))
    (folder / "processor_config.json").write_text(json.dumps(settings))
    _change(folder / "config.json", files.config)
    named = {**files.named}
    if named:
        _change(folder / "tokenizer_config.json", named | {"model_specific_special_tokens": named})
    if files.begins:
        begin_texts(folder / "tokenizer.json")
    return folder


def _change(file: Path, keys: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | keys))


@dataclass(frozen=True)
class Answer:
    """What is compared: a text that shows all tokens, and the counts of answer and prompt."""

    text: str
    tokens: int
    prompt_tokens: int


def without_blanks(text: str) -> str:
    """Return a text as all detokenizers write it: they differ in blanks beside special tokens."""
    return "".join(text.split())


@dataclass(frozen=True)
class Question:
    """What comes before the text of a question."""

    images: list[Image.Image] = field(default_factory=list)
    recordings: list[NDArray[np.float32]] = field(default_factory=list)
    frames: list[Image.Image] = field(default_factory=list)
    """Of a video, two of which are a second."""


def questions(family: str) -> list[Question]:
    files = FAMILIES[family]
    seen = [noise_image(60, 41, files.seed), noise_image(33, 52, files.seed + 1)]
    shown = [noise_image(*files.frame_size, files.seed + at) for at in range(files.frames)]
    spoken = [recordings.noise(1.3, seed=files.seed), recordings.noise(0.4, seed=files.seed + 1)]
    return [
        *(Question(images=seen[:count]) for count in range(files.images + 1)),
        *(Question(recordings=spoken[: count + 1]) for count in range(files.recordings)),
        *([Question(frames=shown)] if shown else []),
    ]


class Upstream:
    """A checkpoint in transformers, with its own processor and template."""

    def __init__(self, family: str, folder: Path) -> None:
        import transformers  # noqa: PLC0415 (seconds)

        kinds: Any = transformers
        self._processor = kinds.AutoProcessor.from_pretrained(folder)
        kind = getattr(kinds, RECORDS[family].transformers_class)
        self._model = kind.from_pretrained(folder).eval()
        self._causal, self._breaks = FAMILIES[family].causal, FAMILIES[family].breaks

    def answer(self, question: Question) -> Answer:
        parts = [{"type": "image"}] * len(question.images)
        parts += [{"type": "audio"}] * len(question.recordings)
        parts += [{"type": "video"}] * bool(question.frames)
        parts += [{"type": "text", "text": QUESTION}]
        text = self._processor.apply_chat_template(
            [{"role": "user", "content": parts}], add_generation_prompt=True, tokenize=False
        )
        given: dict[str, Any] = {"images": question.images} if question.images else {}
        if question.recordings:
            given |= {"audio": question.recordings, "sampling_rate": recordings.RATE}
        if question.frames:
            count = len(question.frames)
            times = {"total_num_frames": count, "fps": 2, "frames_indices": [*range(count)]}
            video = np.stack([*map(np.asarray, question.frames)])
            given |= {"videos": [video], "video_metadata": [times], "do_sample_frames": False}
        inputs = self._processor(text=text, return_tensors="pt", **given)
        if self._causal:
            inputs["token_type_ids"].zero_()
        found = self._model.generate(
            **inputs,
            max_new_tokens=TOKENS,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        gaps = [-float(one[0].topk(2).values.diff()) for one in found.logits]
        assert min(gaps) > LEAST_GAP, f"two tokens are as likely, {gaps}: use another image"
        length = inputs["input_ids"].shape[1]
        ids = found.sequences[0, length:].tolist()
        text = self._processor.decode([one for one in ids if one != END])
        return Answer(without_blanks(text), len(ids), length + self._breaks * len(question.images))


def answer_of(url: str, question: Question) -> Answer:
    media = [*map(image_part, question.images), *map(recording_part, question.recordings)]
    if question.frames:
        row = ",".join(encoded(one, "PNG") for one in question.frames)
        media.append({"type": "video_url", "video_url": {"url": f"data:video/jpeg;base64,{row}"}})
    content = [*media, {"type": "text", "text": QUESTION}]
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        "max_tokens": TOKENS,
        "skip_special_tokens": False,
    }
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=ANSWER_SECONDS)
    assert answer.status_code == 200, answer.text
    usage, (choice,) = answer.json()["usage"], answer.json()["choices"]
    text = without_blanks(choice["message"]["content"])
    return Answer(text, usage["completion_tokens"], usage["prompt_tokens"])


def write_whisper(folder: Path) -> Path:
    """Write a Whisper of one head: vLLM's kernels for CPUs have none of 16 numbers."""
    one = {"encoder_attention_heads": 1, "decoder_attention_heads": 1}
    # Its answers follow the recording, the language and the task.
    with patch.dict(texts.TWIN, one), patch.dict(texts.SEEDS, whisper=16):
        return texts.write("whisper", folder)


def written_down(
    folder: Path, samples: NDArray[np.float32], tasks: list[tuple[str, str]]
) -> list[str]:
    """Return what transformers writes; its `generate` suppresses tokens, which vLLM does not."""
    import torch  # noqa: PLC0415 (seconds)
    import transformers as t  # noqa: PLC0415
    from transformers.generation import GenerationMixin  # noqa: PLC0415

    model: Any = t.WhisperForConditionalGeneration.from_pretrained(folder).eval()
    model.generation_config.suppress_tokens = None
    model.generation_config.begin_suppress_tokens = None
    words: Any = t.AutoTokenizer.from_pretrained(folder)
    extractor: Any = t.WhisperFeatureExtractor.from_pretrained(folder)
    given = extractor(samples, sampling_rate=recordings.RATE, return_tensors="pt")
    found = []
    for language, task in tasks:
        begun = ("startoftranscript", language, task, "notimestamps")
        prefix = words.convert_tokens_to_ids([f"<|{one}|>" for one in begun])
        # Below Whisper's own, which cuts recordings into windows.
        ids = GenerationMixin.generate(
            model,
            **given,
            decoder_input_ids=torch.tensor([prefix]),
            max_new_tokens=TOKENS,
            do_sample=False,
        )
        found.append(without_blanks(words.decode(ids[0, 4:], skip_special_tokens=True)))
    return found


def transcribed(url: str, samples: NDArray[np.float32], language: str, task: str) -> str:
    path = {"transcribe": "transcriptions", "translate": "translations"}[task]
    form = {"model": "tiny", "language": language, "max_tokens": str(TOKENS), "temperature": "0"}
    file = {"file": ("a.wav", encode_wav(samples))}
    answer = httpx.post(f"{url}/v1/audio/{path}", data=form, files=file, timeout=ANSWER_SECONDS)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["text"])
