"""Requests of the gateway's own, as a client would write them for the model."""

import base64
import io
from collections.abc import Mapping

from PIL import Image

from mm_runtime.gateway.api.audio import TranscriptionRequest
from mm_runtime.gateway.api.openai import ChatRequest, CompletionRequest
from mm_runtime.gateway.media.audio import Samples, encode_wav
from mm_runtime.gateway.preparation import AnyRequest, Preparation

Part = Mapping[str, object]
PromptRequest = ChatRequest | CompletionRequest


def question(preparation: Preparation, text: str, *media: Part, max_tokens: int) -> PromptRequest:
    """Return a question about media; a model that knows no conversations gets the text alone."""
    common = _common(preparation, max_tokens)
    if not preparation.chats:
        return CompletionRequest.model_validate({**common, "prompt": text})
    content = [{"type": "text", "text": text}, *media]
    messages = [{"role": "user", "content": content}]
    return ChatRequest.model_validate({**common, "messages": messages})


def transcription(preparation: Preparation, samples: Samples, *, max_tokens: int) -> AnyRequest:
    file = encode_wav(samples)
    return TranscriptionRequest.model_validate({**_common(preparation, max_tokens), "file": file})


def image_part(image: Image.Image) -> Part:
    url = f"data:image/png;base64,{encoded(image, 'PNG')}"
    return {"type": "image_url", "image_url": {"url": url}}


def audio_part(samples: Samples) -> Part:
    sent = {"data": base64.b64encode(encode_wav(samples)).decode(), "format": "wav"}
    return {"type": "input_audio", "input_audio": sent}


def encoded(image: Image.Image, kind: str) -> str:
    """Return a file of Pillow's format `kind` as base64."""
    buffer = io.BytesIO()
    image.save(buffer, format=kind)
    return base64.b64encode(buffer.getvalue()).decode()


def _common(preparation: Preparation, max_tokens: int) -> dict[str, object]:
    return {"model": preparation.model.name, "max_tokens": max_tokens, "temperature": 0}
