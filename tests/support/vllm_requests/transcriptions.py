"""Rows of transcriptions and translations, sent to a Whisper."""

from functools import partial
from typing import Any

from support.vllm_requests.recordings import (
    EMPTY,
    FLAC,
    LONGER,
    LONGER_SECONDS,
    NO_AUDIO,
    SHORT_SECONDS,
    TOO_LARGE,
    TOO_LONG,
)
from support.vllm_requests.table import CHAT, TRANSCRIPTION, TRANSLATION, Check, Refused, Row

_SPEECH = "entrypoints/speech_to_text/"
WHISPER = (f"{_SPEECH}transcription/test_transcription_validation_whisper.py",)
TRANSLATED = (f"{_SPEECH}translation/test_translation_validation.py",)
BOTH = (*WHISPER, *TRANSLATED)
PLAIN_TEXT = (f"{_SPEECH}test_response_format_text.py",)
SUBTITLES = (f"{_SPEECH}test_subtitle_formats.py",)
NUMBER = (f"{_SPEECH}test_verbose_response_protocol.py",)
UPLOAD = (f"{_SPEECH}test_upload_size_limit.py",)
FILE_TYPE = (f"{_SPEECH}test_audio_request_file_type.py",)
GRANULARITY = (f"{_SPEECH}transcription/test_transcription_granularity_gating.py",)
WORDS = (f"{_SPEECH}transcription/test_transcription_word_timestamps.py",)
BEFORE = (f"{_SPEECH}transcription/test_whisper_prompt_special_token.py",)
USAGE = ("entrypoints/openai/speech_to_text/test_usage_policy.py",)
FORCED = (f"{_SPEECH}transcription/test_enable_force_include_usage.py",)

DRAWN = {"temperature": 1, "seed": 42}
TIMED = {"file": LONGER, "response_format": "verbose_json"}
NO_BEAMS = "beams are a property of an engine (`engine.maxBeamWidth`), not of a request"
EVENTS = "events are OpenAI's (`transcript.text.delta`), there they are chunks of chats"
NO_USAGE = "events are OpenAI's, which say no usage of audio"


def _same(answer: Any, other: Any) -> bool:
    return bool(answer["text"] and answer["text"] == other["text"])


def _another(answer: Any, other: Any) -> bool:
    return bool(answer["text"] and answer["text"] != other["text"])


def _joined(events: Any, other: Any) -> bool:
    """Say whether a stream's pieces are the plain answer, which its last event repeats."""
    *deltas, done = events
    joined = "".join(one["delta"] for one in deltas).strip()
    return bool(done["type"] == "transcript.text.done" and joined == done["text"] == other["text"])


def _cut(most: int) -> Check:
    """Return what says whether an answer is the begin of a longer one, of so many words at most.

    A token of the small vocabulary is a word, or nothing that is written.
    """
    return lambda answer, other: (
        other["text"].startswith(answer["text"])
        and 0 < len(answer["text"].split()) <= most < len(other["text"].split())
    )


def _all_windows(answer: Any, other: Any) -> bool:
    """Say whether the text is that of the segments of an answer with time stamps, to the end."""
    return bool(answer["text"] == other["text"] and len(other["segments"]) > other["duration"] > 3)


def _drawn(name: str, value: float, acts: str = "is greedy") -> Row:
    return _whisper(f"`{name}: {value}` {acts}", _same, {**DRAWN, name: value}, {"temperature": 0})


def _penalised(name: str, value: float) -> Row:
    return _whisper(f"`{name}: {value}`", _another, {name: value}, {})


_whisper = partial(Row, WHISPER, TRANSCRIPTION)
_both = partial(Row, BOTH, TRANSCRIPTION)
_translated = partial(Row, TRANSLATED, TRANSLATION)

ROWS = (
    Row(
        (*WHISPER, *USAGE),
        TRANSCRIPTION,
        "audio is transcribed; usage is its length",
        lambda answer: (
            bool(answer["text"]) and answer["usage"] == {"type": "duration", "seconds": 1}
        ),
    ),
    Row(
        PLAIN_TEXT,
        TRANSCRIPTION,
        "`response_format: text` is plain text",
        lambda answer, other: answer.strip() == other["text"],
        {"response_format": "text"},
        {},
    ),
    Row(
        (*WHISPER, *WORDS),
        TRANSCRIPTION,
        "`response_format: verbose_json`: segments with their scores, no words",
        lambda answer: (
            len(answer["segments"]) > 1
            and all(one["avg_logprob"] < 0 for one in answer["segments"])
            and all(one["compression_ratio"] > 0 for one in answer["segments"])
            and answer.get("words") is None
        ),
        TIMED,
    ),
    Row(
        NUMBER,
        TRANSCRIPTION,
        "the duration of `verbose_json` is a number",
        lambda answer: answer["duration"] == LONGER_SECONDS,
        TIMED,
    ),
    Row(
        SUBTITLES,
        TRANSCRIPTION,
        "`response_format: srt`",
        lambda answer: answer.startswith("1\n00:00:00,") and "\n2\n00:00:0" in answer,
        {"file": LONGER, "response_format": "srt"},
    ),
    Row(
        SUBTITLES,
        TRANSCRIPTION,
        "`response_format: vtt`",
        lambda answer: answer.startswith("WEBVTT\n\n00:00:00.") and answer.count("-->") > 1,
        {"file": LONGER, "response_format": "vtt"},
    ),
    Row(
        (),
        TRANSCRIPTION,
        "an unknown `response_format`",
        Refused("response_format", says="srt"),
        {"response_format": "ass"},
    ),
    _whisper("compressed audio", lambda answer: bool(answer["text"]), {"file": FLAC}),
    _whisper("longer audio than the model's window", _all_windows, {"file": LONGER}, TIMED),
    _whisper("`language`", _another, {"language": "de"}, {"language": "en"}),
    _whisper(
        "a language that the model does not know",
        Refused("language", code="unsupported_language"),
        {"language": "hh"},
    ),
    _whisper(
        "a language that is detected",
        lambda answer: answer["language"] == "en",
        {"response_format": "verbose_json"},
    ),
    Row(
        (*WHISPER, *BEFORE),
        TRANSCRIPTION,
        "`prompt`",
        Refused("prompt"),
        {"prompt": "red blue one"},
        differs="audio is read without text before it",
    ),
    _whisper("a stream joins to the plain answer", _joined, {"stream": True}, {}, differs=EVENTS),
    _whisper(
        "a stream of longer audio joins to the plain answer",
        lambda events, other: len(events) > 2 and _joined(events, other),
        {"file": LONGER, "stream": True},
        {"file": LONGER},
        differs=EVENTS,
    ),
    Row(
        USAGE,
        TRANSCRIPTION,
        "a stream says no usage unless requested",
        lambda events: all(one.get("usage") is None for one in events),
        {"stream": True},
    ),
    *(
        Row(
            (*BOTH, *more),
            TRANSCRIPTION,
            f"`{name}`",
            Refused(name, code="unknown_parameter"),
            {"stream": True, name: True},
            differs=NO_USAGE,
        )
        for name, more in (("stream_include_usage", FORCED), ("stream_continuous_usage_stats", ()))
    ),
    _whisper("`temperature: 1` with a seed", _another, DRAWN, {"temperature": 0}),
    _whisper(
        "all sampling parameters at once",
        _another,
        {
            "temperature": 0.8,
            "seed": 42,
            "repetition_penalty": 1.9,
            "top_k": 12,
            "top_p": 0.4,
            "min_p": 0.5,
            "frequency_penalty": 1.8,
            "presence_penalty": 2.0,
        },
        {"seed": 42},
    ),
    _whisper("a seed repeats an answer", _same, DRAWN, DRAWN),
    _drawn("top_p", 0.01),
    _drawn("top_k", 1),
    _drawn("min_p", 1),
    _whisper(
        "`top_p: 0.01` of longer audio is greedy in each window",
        _same,
        {**TIMED, **DRAWN, "top_p": 0.01},
        TIMED,
    ),
    _penalised("repetition_penalty", 1.9),
    _penalised("frequency_penalty", 1.8),
    _penalised("presence_penalty", 2),
    _both("`max_completion_tokens` cuts an answer", _cut(8), {"max_completion_tokens": 8}, {}),
    _both(
        "`max_completion_tokens` above what an answer can have",
        _same,
        {"max_completion_tokens": 1_000_000},
        {},
    ),
    _both(
        "`max_completion_tokens` of longer audio, above those of a window",
        _same,
        {"file": LONGER, "max_completion_tokens": 500},
        {"file": LONGER},
    ),
    Row(
        GRANULARITY,
        TRANSCRIPTION,
        "`timestamp_granularities: segment`",
        lambda answer, other: answer["segments"] == other["segments"] != [],
        {**TIMED, "timestamp_granularities": ["segment"]},
        TIMED,
    ),
    Row(
        WORDS,
        TRANSCRIPTION,
        "`timestamp_granularities: word`",
        Refused("timestamp_granularities"),
        {**TIMED, "timestamp_granularities": ["word"]},
        differs="times of words are not computed; there they are with a flag of the server",
    ),
    Row(
        GRANULARITY,
        TRANSCRIPTION,
        "`timestamp_granularities` without `verbose_json`",
        Refused("timestamp_granularities", says="verbose_json"),
        {"response_format": "json", "timestamp_granularities": ["segment"]},
        differs="it would be without effect, and is refused, not ignored",
    ),
    _whisper(
        "beam search",
        Refused("use_beam_search"),
        {"use_beam_search": True, "n": 1},
        differs=NO_BEAMS,
    ),
    _whisper("two beams", Refused("n"), {"n": 2}, differs=NO_BEAMS),
    _whisper("a file that is no audio", Refused("file", code="invalid_audio"), {"file": NO_AUDIO}),
    Row(
        (),
        TRANSCRIPTION,
        "an empty file",
        Refused("file", code="invalid_audio", says="0 bytes"),
        {"file": EMPTY},
    ),
    Row(
        (),
        TRANSCRIPTION,
        "audio of more than ten minutes",
        Refused("file", code="invalid_audio", says="longer than 600 seconds"),
        {"file": TOO_LONG},
        differs="its samples would fill memory of all clients; there a file's size alone counts",
    ),
    Row(
        UPLOAD,
        TRANSCRIPTION,
        "a file above the limit of the server",
        Refused(None, 413, "request_too_large"),
        {"file": TOO_LARGE},
        differs="before the file is read, as HTTP has it; there 400",
    ),
    Row(
        FILE_TYPE,
        TRANSCRIPTION,
        "a `file` that is a text",
        Refused("file"),
        {"file": "not-a-file.wav"},
        differs="as whatever a client must change; there 422",
    ),
    Row(
        (),
        TRANSCRIPTION,
        "no file",
        Refused("file", code="missing_required_parameter"),
        without=("file",),
    ),
    Row(
        (),
        TRANSCRIPTION,
        "a transcription by another model",
        Refused("model", 404, "model_not_found"),
        {"model": "other"},
    ),
    Row(
        WHISPER,
        CHAT,
        "a chat with a model that transcribes",
        Refused(None, code="unsupported_endpoint", says="/v1/audio/transcriptions"),
        differs="with the path to use; there 404",
    ),
    _translated("audio is translated", lambda answer: bool(answer["text"]), {"language": "de"}),
    _translated(
        "`to_language: en`", _same, {"language": "de", "to_language": "en"}, {"language": "de"}
    ),
    _translated(
        "`to_language: es`",
        Refused("to_language"),
        {"language": "de", "to_language": "es"},
        differs="checkpoints here translate into English; there some know more",
    ),
    Row(
        (*GRANULARITY, *NUMBER),
        TRANSLATION,
        "`response_format: verbose_json` of a translation",
        lambda answer: answer["duration"] == SHORT_SECONDS and len(answer["segments"]) > 0,
        {"response_format": "verbose_json"},
    ),
    _translated(
        "a stream of a translation joins to the plain answer",
        _joined,
        {"stream": True, "seed": 42},
        {"seed": 42},
        differs=EVENTS,
    ),
    _translated("longer audio is translated", _all_windows, {"file": LONGER}, TIMED),
)
"""All of them."""
