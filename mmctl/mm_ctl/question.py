"""A question as a request of OpenAI's or Triton's HTTP, and the text in what comes back."""

import base64
import mimetypes
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mm_ctl.documents import UsageError
from mm_operator.errors import ClusterError

TRITON_MODELS = {"triton": "ensemble", "bls": "tensorrt_llm_bls"}
NUMBERS = {
    **dict.fromkeys(("end_id", "pad_id", "top_k", "prompt_table_extra_id"), int),
    **dict.fromkeys(("top_p", "temperature", "repetition_penalty", "presence_penalty"), float),
}
"""Flags of NVIDIA's client.py that are inputs of Triton's models by the same names."""


def request_of(options: Namespace) -> tuple[str, dict[str, Any]]:
    """Return path and JSON body; UsageError: an unreadable file, or no input of the protocol."""
    numbers = {name: getattr(options, name) for name in ("max_tokens", *NUMBERS)}
    body = {"stream": options.streaming}
    body |= {name: value for name, value in numbers.items() if value is not None}
    images = [_url(url, "image/png") for one in options.image for url in _split(one)]
    triton = TRITON_MODELS.get(options.protocol)
    for name in ("video", "audio") if triton else ("pad_id", "prompt_table_extra_id"):
        if getattr(options, name) is not None:
            other = "openai" if triton else "triton"
            raise UsageError(f"--{name} cannot be sent by this protocol: give --protocol {other}")
    if triton:
        body |= {"text_input": options.text} | ({"image_url_input": images} if images else {})
        return f"/v2/models/{triton}/generate{'_stream' if options.streaming else ''}", body
    if "end_id" in body:
        body["stop_token_ids"] = [body.pop("end_id")]
    parts = [_part("image_url", url=url) for url in images]
    if options.video:
        frames = {"num_frames": options.video_num_frames, "fps": options.fps}
        chosen = {name: value for name, value in frames.items() if value is not None}
        parts.append(_part("video_url", url=_url(options.video, "video/mp4"), **chosen))
    if options.audio:
        recording = base64.b64encode(read_file(options.audio)).decode()
        kind = Path(options.audio).suffix.lstrip(".") or "wav"
        parts.append(_part("input_audio", data=recording, format=kind))
    content = [*parts, {"type": "text", "text": options.text}] if parts else options.text
    body |= {"model": options.name, "messages": [{"role": "user", "content": content}]}
    return "/v1/chat/completions", body


def text_of(answer: Mapping[str, Any], name: str, status: int = 0) -> str:
    """Return the text of an answer, or of a piece of a stream; ClusterError: it is an error."""
    if error := answer.get("error"):
        message = error["message"] if isinstance(error, dict) else str(error)
        raise ClusterError(status, "", name, message)
    if "choices" not in answer:
        return str(answer.get("text_output", answer.get("text", "")))
    found = [one.get("delta") or one.get("message") or {} for one in answer["choices"]]
    return "".join(one.get("content") or "" for one in found)


def read_file(name: str) -> bytes:
    """Return what a file holds. UsageError: it cannot be read."""
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}; give a file or a URL") from error


def _part(kind: str, **value: Any) -> dict[str, Any]:
    return {"type": kind, kind: value}


def _split(images: str) -> list[str]:
    return [images] if images.startswith("data:") else images.split(",")


def _url(given: str, usual: str) -> str:
    if given.startswith(("http://", "https://", "data:")):
        return given
    kind = mimetypes.guess_type(given)[0] or usual
    return f"data:{kind};base64,{base64.b64encode(read_file(given)).decode()}"
