"""Percentiles are measurements, latency counts from when a request was due, failures count."""

import io
import random

import pytest
from PIL import Image

from mm_lab.loadtest.arrivals import Due
from mm_lab.loadtest.image import png
from mm_lab.loadtest.mix import Choice, Mix, MixError, random_images
from mm_lab.loadtest.report import BenchReport, nearest_rank, percentiles, summarise
from mm_lab.loadtest.results import Result
from mm_lab.loadtest.table import as_table


def result(due: float, *, wait: float = 0.0, first: float = 0.1, **changes: object) -> Result:
    """Return an answered request: sent `wait` late, first token `first` after that."""
    sent = due + wait
    values: dict[str, object] = {
        "due": due,
        "sent": sent,
        "ended": sent + first + 0.2,
        "images": 1,
        "first_token": sent + first,
        "gaps": (0.1, 0.1),
        "prompt_tokens": 20,
        "output_tokens": 3,
    }
    return Result(**{**values, **changes})  # type: ignore[arg-type]


def report(results: list[Result], **changes: object) -> BenchReport:
    """Return the report of a run of 10 s after a warm-up of 2."""
    arguments: dict[str, object] = {
        "endpoint": "http://h/v1",
        "model": "tiny",
        "load": "open loop",
        "seed": 1,
        "begin": 2.0,
        "end": 12.0,
        "targets": {"ttft": 0.5, "e2e": 1.0},
    }
    return summarise(results, **{**arguments, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.5, 5.0), (0.9, 9.0), (0.95, 10.0), (0.99, 10.0), (0.01, 1.0)],
    ids=str,
)
def test_percentiles_are_measurements(share: float, expected: float) -> None:
    """Nearest rank: of ten numbers the 95th percentile is the tenth, nothing in between."""
    assert nearest_rank([float(number) for number in range(1, 11)], share) == expected


def test_nothing_has_no_distribution() -> None:
    assert percentiles([]) is None
    assert report([]).everything.time_to_first_token is None
    assert report([]).goodput_share == 0.0


def test_latency_counts_from_when_a_request_was_due() -> None:
    """A client that fell behind by a second shows it in every latency, and as send lag."""
    reported = report([result(3.0), result(4.0, wait=1.0)])

    assert reported.everything.time_to_first_token.max == pytest.approx(1.1)
    assert reported.send_lag_p99_seconds == pytest.approx(1.0)


def test_the_warm_up_is_not_counted() -> None:
    reported = report([result(1.9, first=9.0), result(2.0), result(11.9), result(12.0)])

    assert reported.requests == 2
    assert reported.answered_per_second == pytest.approx(0.2)


def test_goodput_needs_an_answer_within_every_objective() -> None:
    """A failed request is in no objective's share, and one slow latency is enough to lose."""
    reported = report(
        [
            result(3.0),
            result(4.0, first=0.6),
            result(5.0, first=0.4, ended=6.5),
            result(6.0, error="http-429", first_token=None, gaps=()),
        ]
    )

    assert [(kept.objective, kept.share) for kept in reported.objectives] == [
        ("ttft", 0.5),
        ("e2e", 0.5),
    ]
    assert (reported.goodput_share, reported.goodput_per_second) == (0.25, pytest.approx(0.1))
    assert reported.errors == {"http-429": 1}
    assert reported.answered == 3


def test_texts_and_images_are_distinguished() -> None:
    reported = report([result(3.0, images=0, first=0.05), result(4.0), result(5.0, images=2)])

    assert (reported.text_only.end_to_end.count, reported.with_images.end_to_end.count) == (1, 2)
    assert reported.images_per_second == pytest.approx(0.3)


def test_the_table_says_all_of_it() -> None:
    page = as_table(report([result(3.0), result(4.0, images=0), result(5.0, error="timeout")]))

    for words in (
        "tiny at http://h/v1: open loop, 10 s measured",
        "3 due, 2 answered",
        "failed: timeout         1",
        "text only: first token",
        "100.0 ms",
        "goodput                         66.67% of all requests, 0.20 per second",
    ):
        assert words in page


def test_the_document_is_read_back() -> None:
    reported = report([result(3.0)])

    assert BenchReport.from_json(reported.to_json(indent=2)) == reported


def test_images_are_png_files_and_differ() -> None:
    """A decoder reads a made image at its size; no two of a run are the same; a seed repeats."""
    content = png(100, random.Random(1))  # noqa: S311  # an image, no secret
    image = Image.open(io.BytesIO(content))
    image.load()

    assert (image.format, image.mode, image.size) == ("PNG", "RGB", (100, 100))
    assert len(set(random_images(32, 1))) == len(random_images(32, 1))
    assert random_images(32, 1) == random_images(32, 1)


def test_questions_follow_the_weights() -> None:
    mix = Mix(
        model="tiny",
        prompt="what is it",
        images=Choice.parse("0:1,2:3"),
        words=Choice.parse("5"),
        max_tokens=Choice.parse("8"),
        image_urls=random_images(16, 1),
    )
    requested = [question for _, question in mix.questions(iter([Due(0.0)] * 1000), seed=1)]
    with_images = sum(question.images == 2 for question in requested)
    given, _ = (question for _, question in mix.questions(iter([Due(0, 1, 0, 3), Due(1)]), seed=1))

    assert with_images == pytest.approx(750, rel=0.1)
    assert {len(one.body["messages"][0]["content"][-1]["text"].split()) for one in requested} == {8}
    assert given.images == 1
    assert given.body["max_tokens"] == 3
    assert given.body["messages"][0]["content"][-1]["text"] == "what is it"


@pytest.mark.parametrize("text", ["", "a", "1:x", "-1", "1:-2", "1:0"])
def test_what_is_no_choice_is_refused(text: str) -> None:
    with pytest.raises(MixError):
        Choice.parse(text)
