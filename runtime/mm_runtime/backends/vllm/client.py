"""The gateway's client of vLLM, on the wire of its chat_completion/protocol.py."""

import hashlib
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import aiohttp
import numpy as np
from numpy.typing import NDArray

from mm_api.documents.serving_plan import ServingPlan
from mm_api.documents.vllm_serve import FeatureFolder as FeatureFolderPlan
from mm_api.gateway_memory import encoding_bytes
from mm_edge.errors import InvalidRequestError
from mm_runtime.backends.openai_server.body import (
    ChatBody,
    Files,
    media_parts,
    sampling_fields,
    written_prompt,
)
from mm_runtime.backends.openai_server.client import OpenAiServerEngine, message_of
from mm_runtime.backends.vllm.features import PARALLEL, FeatureFolder, HandOver
from mm_runtime.base.chat_template import Media
from mm_runtime.gateway.api.audio import TRANSLATE
from mm_runtime.gateway.backends.engine import EngineRequest
from mm_runtime.gateway.media.as_sent import AsSent
from mm_runtime.gateway.media.audio import encode_wav
from mm_runtime.gateway.media.frames import Video
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.disaggregated.client import EncoderClient
from mm_runtime.serving.encode.disaggregated.hosts import Hosts
from mm_runtime.serving.encode.disaggregated.identity import vision_identity
from mm_runtime.serving.encode.disaggregated.responses import ExpectedFeatures
from mm_runtime.serving.preprocess.audio.prefixes import Prefixes, accepts_audio
from mm_runtime.serving.preprocess.processors import load_processor
from mm_runtime.serving.prompts.tokens import TextCodec

_DRAWN_FROM_ALL: Final[Mapping[str, Any]] = {"top_p": 1.0, "top_k": 0, "min_p": 0.0}
_NOT_PENALIZED: Final[Mapping[str, Any]] = {
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
_LEAST_PENALTY = 1e-30
"""Over a smaller one logits are infinite in 32 bits, and a form gets a token that it refuses."""

_RATE = 2
"""Frames a second of a video that does not say its length: as many as processors sample."""

_PREFIX = "<|startoftranscript|><|en|><|transcribe|><|notimestamps|>"
"""What vLLM has every answer of a Whisper begin with, in this language (models/whisper.py)."""

_SIGN, _SEEDS = 1 << 63, 1 << 64
"""A seed is a signed number of 64 bits there, and an unsigned one here."""


@dataclass(frozen=True, slots=True)
class VllmDialect:
    """Implements `mm_runtime.backends.openai_server.client.Dialect` for vLLM.

    Attributes:
        model: the name that the server knows.
        begin: text of the begin token, which a prompt has once; empty: the tokenizer has none.
        adapters: uid -> name of each LoRA adapter, which the server has as a model of that name.
        features: disaggregated encoders; None: vLLM encodes all images itself.
    """

    model: str
    begin: str = ""
    adapters: Mapping[int, str] = field(default_factory=dict)
    features: HandOver | None = None

    @property
    def waits(self) -> bool:
        return self.features is not None

    def body(self, request: EngineRequest) -> ChatBody:
        """Return the body of a request; media are sent as they were decoded.

        Raises:
            InvalidRequestError: a translation is drawn in a way that versions do not know.
        """
        if request.audio is not None:
            return transcription_body(self.model, request, request.audio)
        files, salt = Files(), request.cache_salt
        keys = {
            Media.IMAGE: [_key(salt, image) for image in request.images],
            Media.VIDEO: [_key(f"{salt};{one.seconds}", one.pixels) for one in request.videos],
            Media.AUDIO: [_key(salt, samples) for samples in request.recordings],
        }
        parts = media_parts(request, files)
        content = [
            part | {"uuid": key}
            for kind, known in keys.items()
            for part, key in zip(parts[kind], known, strict=True)
        ]
        body: dict[str, Any] = {
            **_sampled(request),
            **written_prompt(request.prompt, content),
            "model": self.model if request.adapter is None else self.adapters[request.adapter],
            "add_special_tokens": not (self.begin and request.prompt.startswith(self.begin)),
            "return_token_ids": True,
        }
        for video in request.videos:  # one at the most
            body["media_io_kwargs"] = {"video": _times(video)}
        if request.form is not None:
            body["structured_outputs"] = {request.form.kind: json.loads(request.form.text)}
        made = files.body(body)
        if self.features is None or not request.images:
            return made
        release = self.features.hold(keys[Media.IMAGE], request.images, request.cache_salt)
        return replace(made, release=release)

    def refusal(self, event: str) -> str | None:
        try:
            code = json.loads(event)["error"]["code"]
        except (ValueError, KeyError, TypeError):
            return None
        if code != HTTPStatus.BAD_REQUEST:
            return None
        return f"The model refused the request: {message_of(event.encode())}."


def _sampled(request: EngineRequest) -> dict[str, Any]:
    """Return how tokens are drawn; what is not sent is the checkpoint's generation_config.json's.

    So all of it is sent.
    """
    found = {**_DRAWN_FROM_ALL, **_NOT_PENALIZED, **sampling_fields(request)}
    found["repetition_penalty"] = max(found["repetition_penalty"], _LEAST_PENALTY)
    if found.get("seed", 0) >= _SIGN:
        found["seed"] -= _SEEDS
    return found


def _times(video: Video) -> dict[str, Any]:
    # What vLLM's reader of frames in a row (media/video.py) knows of them.
    count = len(video.pixels)
    return {"num_frames": count, "fps": count / video.seconds if video.seconds else _RATE}


def transcription_body(model: str, request: EngineRequest, audio: NDArray[np.float32]) -> ChatBody:
    """Return the form of a transcription or translation; vLLM writes the prefix again.

    Raises:
        InvalidRequestError: a translation with a parameter that versions before 0.30 drop.
    """
    _, language, task, *_ = re.findall(r"<\|(\w+)\|>", request.prompt)
    fields = _sampled(request)
    del fields["stream_options"]
    fields["max_completion_tokens"] = fields.pop("max_tokens")
    if task == TRANSLATE:
        for name, neutral in {**_DRAWN_FROM_ALL, **_NOT_PENALIZED}.items():
            if fields.pop(name) != neutral:
                raise InvalidRequestError(
                    f"`{name}` is not served of translations by this model's backend. Leave it "
                    "out.",
                    param=name,
                    code="unsupported_parameter",
                )
    fields |= {"stream_include_usage": True}
    texts = {name: json.dumps(one) for name, one in fields.items()}
    form = aiohttp.FormData(texts | {"model": model, "language": language})
    form.add_field("file", encode_wav(audio), filename="audio.wav", content_type="audio/wav")
    path = "translations" if task == TRANSLATE else "transcriptions"
    return ChatBody(b"", (), path=f"/v1/audio/{path}", form=form)


def _key(salt: str, values: NDArray[Any]) -> str:
    """Return what the server's caches know media by: clients of other salts share none of it.

    Processors have instructions for SHA-256: 2.4 ms for 1280 x 720, where BLAKE2 takes 8.
    """
    found = hashlib.sha256(salt.encode())
    if isinstance(values, AsSent):
        found.update(b";file;" + values.file)
        return found.hexdigest()
    found.update(f";{values.shape};".encode())
    found.update(np.ascontiguousarray(values).data)
    return found.hexdigest()


def open_vllm(directory: EngineDirectory, serving: ServingPlan, address: str) -> OpenAiServerEngine:
    """Return the engine at host:port, or where the plan has it listen; no request is sent yet.

    Raises:
        OSError, ValueError: the engine's tokenizer is missing or unusable, or a Whisper begins its
            answers otherwise than vLLM does.
    """
    plan = serving.vllm_serve
    if plan is None:
        raise ValueError("the serving plan does not say how vLLM is called")
    codec = TextCodec(directory.tokenizer)
    if accepts_audio(directory) and (own := Prefixes.load(directory, codec).write(None)) != _PREFIX:
        raise ValueError(
            f"vLLM begins each answer with {_PREFIX}, and this checkpoint was trained to begin "
            f"with {own}: its answers would be empty or wrong"
        )
    dialect = VllmDialect(
        serving.model,
        codec.begin_token or "",
        {one.uid: one.name for one in directory.manifest.plan.adapters},
        _hand_over(directory, serving, plan.features) if plan.features else None,
    )
    return OpenAiServerEngine(
        address or f"127.0.0.1:{plan.port}",
        dialect,
        request_seconds=serving.gateway.request_timeout_seconds,
        encoding_bytes=encoding_bytes(serving.gateway),
    )


def _hand_over(
    directory: EngineDirectory, serving: ServingPlan, folder: FeatureFolderPlan
) -> HandOver:
    """Return what lets disaggregated encoders compute features."""
    facts, vision, encoders = directory.facts, directory.vision, serving.encoders
    processor = load_processor(directory)
    if encoders is None or vision is None or processor is None:
        raise ValueError("the serving plan has a folder of features, and no encoders for it")
    hosts = Hosts(encoders.addresses)
    half = directory.manifest.plan.engine.dtype == "float16"
    client = EncoderClient(
        lambda: hosts.addresses,
        identity=vision_identity(directory.manifest),
        expected_features=ExpectedFeatures.of(facts, vision, np.float16 if half else np.float32),
        timeout_seconds=encoders.timeout_seconds,
        key=encoders.key,
    )
    return HandOver(
        FeatureFolder(Path(folder.path), folder.most_bytes),
        client,
        processor,
        facts.text.vocabulary_size,
        threading.Semaphore(PARALLEL),
    )
