"""Encoders in pods of their own have as many replicas as the images that arrive keep busy."""

from dataclasses import replace

import pytest
from aiohttp import web

from mm_api.labels import Component
from mm_api.v1alpha1 import AutoscalingSpec
from mm_operator import names
from mm_operator.autoscaling import ENCODERS, Decision
from mm_operator.scaling import scaler
from mm_operator.scaling.evaluation import objectives_of
from mm_operator.scaling.model_autoscaler import ModelAutoscaler, Requested
from mm_operator.scaling.pods import ScaledPod
from mm_operator.scaling.traffic import PodSeries, Reading, read_encoders
from support.answering_api import answered_by
from support.cases import cases
from support.one_tick import decisions, model, pod, samples

POD = ScaledPod("encoder-0", "0", ready=True, terminating=False, created_at=0.0, ready_at=10.0)
TOKENS = 16.0
"""That an image becomes; a second of an encoder each."""


def server(images: float, *, refused: float = 0.0) -> PodSeries:
    tokens = images * TOKENS
    rates = {"image_tokens": tokens, "accepted": images, "refused": refused}
    values = {f"{name}_{window}": rate for name, rate in rates.items() for window in WINDOWS}
    return PodSeries({**values, "image_tokens": 600 * tokens})


WINDOWS = ("fast", "steady", "newest")


def encoder(images: float, *, waiting: float = 0.0) -> PodSeries:
    rates = {"encoded": images, "encoder_busy": images}
    values = {f"{name}_{window}": rate for name, rate in rates.items() for window in WINDOWS}
    seen = {"sampled_at": 500.0, "now": 510.0, "encoding": waiting, "busy": 600 * images}
    return PodSeries({**values, **seen})


def read(came: PodSeries, *encoders: PodSeries) -> Reading:
    pods = [replace(POD, name=f"encoder-{number}") for number in range(len(encoders) or 1)]
    series = {("demo", pod.name): one for pod, one in zip(pods, encoders, strict=False)}
    return read_encoders(
        namespace="demo",
        pods=pods,
        former=[pod.name for pod in pods],
        servers=["server"],
        series={**series, ("demo", "server"): came},
    )


def decide(autoscaler: ModelAutoscaler, reading: Reading, at: float, replicas: int) -> Decision:
    spec = AutoscalingSpec(min_replicas=1, max_replicas=8)
    objectives = replace(objectives_of(spec, slots_per_replica=4), tuning=ENCODERS)
    pods = [replace(POD, name=f"encoder-{number}") for number in range(replicas)]
    requested = Requested(spec, replicas, 4)
    return autoscaler.decide(requested, objectives, pods=pods, reading=reading, now=at)


def test_what_images_cost_is_measured_while_encoders_keep_up() -> None:
    """Encoders without a pause may be behind: what they did is then no cost of what came."""
    assert read(server(0.5), encoder(0.5)).costs.seconds == {"image_token": 1 / TOKENS}
    assert not read(server(3.0), encoder(1.0)).costs


def test_refused_requests_bring_images_as_well() -> None:
    traffic = read(server(0.5, refused=0.5), encoder(0.5)).traffic
    assert (
        traffic.fast.image_tokens == 2 * read(server(0.5), encoder(0.5)).traffic.fast.image_tokens
    )


def test_encoders_without_series_are_reported() -> None:
    assert "series of the encoders: it must scrape port 8002" in read(server(0.5)).problem


@cases("images expected", {"few": (0.2, 1), "half-of-two": (0.9, 2), "a-queue-grows": (2.2, 8)})
def test_arriving_images_say_how_many(images: float, expected: int) -> None:
    """Half of an encoder's time each, and more while one works without a pause."""
    autoscaler = ModelAutoscaler({}, 0.0, 1)
    decide(autoscaler, read(server(0.2), encoder(0.2)), 0.0, 1)
    reading = read(server(images), encoder(min(1.0, images), waiting=images))
    assert expected == decide(autoscaler, reading, 15.0, 1).replicas


def test_too_few_encoders_are_known_for_two_minutes() -> None:
    """So long requests that waited for them are in the language model's latencies."""
    autoscaler = ModelAutoscaler({}, 0.0, 1)
    decide(autoscaler, read(server(0.2), encoder(0.2)), 1000.0, 1)
    assert autoscaler.short_until == 0.0
    decide(autoscaler, read(server(0.2), encoder(0.2, waiting=9.0)), 1015.0, 1)
    assert autoscaler.short_until == 1135.0


@cases(
    "sent taken expected",
    {"encoders-were-scraped-before": (9, 0, 1), "encoders-are-short": (0, 9, 1), "no": (0, 0, 3)},
)
async def test_what_waits_for_encoders_is_no_load_of_the_model_at_the_first_look(
    monkeypatch: pytest.MonkeyPatch, sent: int, taken: int, expected: int
) -> None:
    """`sent`: what the server counts of ten requests, `taken`: what encoders do."""
    monkeypatch.setattr(scaler, "_BATCH", 1)
    inside, encoders = pod("a", Component.ENCODER), names.encoders("a")
    metadata = {**inside["metadata"], "name": encoders, "uid": encoders}
    others = [("Pod", inside), ("Deployment", {"metadata": metadata, "spec": {"replicas": 1}})]
    scraped = {"sampled_at": 500, "now": 510}
    accepted = {f"accepted_{window}": 1 for window in WINDOWS}
    waiting = {**accepted, **scraped, "running": 10, "encoding": sent}
    series = {"a-server-0": waiting, "a-encoder-0": {**scraped, "encoding": taken}}

    async def answer(_: web.Request) -> web.Response:
        return samples(series)

    spec = {"vision": {"placement": "Disaggregated"}, "engine": {"maxBatchSize": 16}}
    async with answered_by(answer) as address:
        found = await decisions(address, model("a", **spec), others=others)
    assert found["a"].replicas == expected
