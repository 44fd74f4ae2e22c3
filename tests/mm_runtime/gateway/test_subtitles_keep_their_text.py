"""What is said stands in subtitles as it was said, whatever signs it has."""

import html
from typing import Literal

import pytest

from mm_runtime.gateway.api.audio import TranscriptionRequest
from mm_runtime.gateway.api.completions import Answers, Usage
from mm_runtime.gateway.api.segments import Part, Segment
from mm_runtime.gateway.api.transcription import Transcript


def subtitles(form: Literal["srt", "vtt"], *texts: str) -> str:
    segments = tuple(
        Segment(Part(at, at + 1, ()), text, seek=0, temperature=0.0, mean_log_prob=None)
        for at, text in enumerate(texts)
    )
    request = TranscriptionRequest(model="m", file=b"", response_format=form)
    found = Transcript(request).full(Answers(1).complete, Usage(0, 0, segments=segments))
    assert isinstance(found, str)
    return found


SIGNS = [
    pytest.param("R&D", "R&amp;D", "R&D", id="ampersand"),
    pytest.param("x < 3", "x &lt; 3", "x < 3", id="less"),
    pytest.param("<i>loud</i>", "&lt;i&gt;loud&lt;/i&gt;", "<i>loud</i>", id="tag"),
    pytest.param("&lt;", "&amp;lt;", "&lt;", id="reference"),
    pytest.param("a --> b", "a --&gt; b", "a -> b", id="arrow"),
    pytest.param('"it\'s"', '"it\'s"', '"it\'s"', id="quotes"),
    pytest.param(" one\n\ntwo ", "one two", "one two", id="lines"),
]


@pytest.mark.parametrize(("said", "vtt", "srt"), SIGNS)
def test_signs(said: str, vtt: str, srt: str) -> None:
    """WebVTT has references for signs of its own; SRT has none, and Whisper's arrow for its own."""
    assert subtitles("vtt", said) == f"WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n{vtt}\n\n"
    assert subtitles("srt", said) == f"1\n00:00:00,000 --> 00:00:01,000\n{srt}\n\n"
    assert html.unescape(vtt) == " ".join(said.split())


@pytest.mark.parametrize("form", ["srt", "vtt"])
def test_cues(form: Literal["srt", "vtt"]) -> None:
    """An arrow that was said ends no cue: each segment has one line of times."""
    assert subtitles(form, "00:00:05.000 --> 00:00:06.000", "a & b").count("-->") == 2
