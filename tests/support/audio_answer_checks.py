"""What every answer of `/v1/audio/...` must be: of the requested format, or events of text."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from openai.types.audio import (
    Transcription,
    TranscriptionTextDeltaEvent,
    TranscriptionTextDoneEvent,
    TranscriptionVerbose,
)

from support.generated_requests import Generated

_CUE = r"\d\d:\d\d:\d\d{0}\d{{3}} --> \d\d:\d\d:\d\d{0}\d{{3}}\n.*\n"
_SRT = re.compile(r"(\d+\n" + _CUE.format(",") + r"\n)*")
_VTT = re.compile(r"WEBVTT\n\n(" + _CUE.format("[.]") + r"\n)*")


def check_transcript(request: Generated, answer: httpx.Response) -> None:
    """Check an answer that came at once."""
    form = request.value.get("response_format") or "json"  # a form has neither null nor []
    if form in {"text", "srt", "vtt"}:
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.text.endswith("\n") or form == "srt"
        wanted = {"srt": _SRT, "vtt": _VTT}.get(form)
        assert wanted is None or wanted.fullmatch(answer.text)
        return
    body = answer.json()
    assert body["usage"]["type"] == "duration"
    assert body["usage"]["seconds"] >= 1
    if form == "json":
        Transcription.model_validate_json(answer.text, strict=True)
        return
    _check_verbose(request, body)


def _check_verbose(request: Generated, body: dict[str, Any]) -> None:
    named = request.value.get("language")
    translated = request.path.endswith("/translations")
    assert body["task"] == ("translate" if translated else "transcribe")
    assert body["language"] == ("en" if translated else named or body["language"])
    assert body["language"]
    segments = body["segments"]
    assert [one["id"] for one in segments] == [*range(len(segments))]
    assert all(0 <= one["start"] <= one["end"] for one in segments)
    # Some engines give no logits, so there is none; openai's type does not know that.
    unknown = {"no_speech_prob": 0.0}
    known = [{**one, **(unknown if one["no_speech_prob"] is None else {})} for one in segments]
    TranscriptionVerbose.model_validate_json(json.dumps({**body, "segments": known}), strict=True)


def check_transcript_stream(events: Sequence[Mapping[str, Any]]) -> None:
    """Check that the deltas make the text of the last event."""
    *deltas, last = events
    for one in deltas:
        TranscriptionTextDeltaEvent.model_validate_json(json.dumps(one), strict=True)
    TranscriptionTextDoneEvent.model_validate_json(json.dumps(last), strict=True)
    assert "".join(one["delta"] for one in deltas).strip() == last["text"]
