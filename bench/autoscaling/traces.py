"""Traces: what arrives. Each is a function of a seed, between one and two hours long."""

import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mm_lab.simulation.request import Request

_SERVEGEN = Path(__file__).parent / "data" / "servegen-mm-image.json"
HEAVY = 3
"""How many times the image tokens an image-heavy request brings."""

MINUTE = 60.0
HOUR = 3600.0
DAY = 1.5 * HOUR
"""Of `diurnal`: a day in a sixteenth of its time, so its slopes are sixteen times as steep."""


@dataclass(frozen=True)
class _Client:
    """One client of ServeGen: rates by window, and token counts by quantile."""

    rates: tuple[float, ...]
    variations: tuple[float, ...]
    image_tokens: tuple[int, ...]
    text_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]

    def request(self, at: float, rng: random.Random) -> Request:
        """Draw one request."""
        return Request(
            at,
            _drawn(self.image_tokens, rng),
            _drawn(self.text_tokens, rng),
            max(1, _drawn(self.output_tokens, rng)),
        )


def _drawn(quantiles: tuple[int, ...], rng: random.Random) -> int:
    place = rng.random() * (len(quantiles) - 1)
    low = int(place)
    return round(quantiles[low] + (place - low) * (quantiles[low + 1] - quantiles[low]))


@cache
def _clients() -> tuple[float, tuple[_Client, ...]]:
    body = json.loads(_SERVEGEN.read_text(encoding="utf-8"))
    names = ("rates", "variations", "image_tokens", "text_tokens", "output_tokens")
    clients = tuple(_Client(*(tuple(one[name]) for name in names)) for one in body["clients"])
    return float(body["window_seconds"]), clients


def servegen(
    seed: int, *, scale: float, hours: float = 3.0, first_window: int = 3
) -> list[Request]:
    """Return a part of the day: every client a renewal process with its own gaps and tokens."""
    rng = random.Random(seed)  # noqa: S311 (repeatable, not secret)
    window, clients = _clients()
    found: list[Request] = []
    for client in clients:
        moments = _renewals(client, rng, window, scale, end=hours * HOUR, first=first_window)
        found.extend(client.request(at, rng) for at in moments)
    return sorted(found)


def _renewals(
    client: _Client,
    rng: random.Random,
    window: float,
    scale: float,
    *,
    end: float,
    first: int,
) -> Iterator[float]:
    at = 0.0
    while at < end:
        index = min(first + int(at // window), len(client.rates) - 1)
        rate = client.rates[index] * scale
        edge = (at // window + 1) * window
        if rate <= 0:
            at = edge
            continue
        # Gamma gaps with the window's mean and coefficient of variation.
        shape = 1 / max(0.05, client.variations[index]) ** 2
        at += rng.gammavariate(shape, 1 / (rate * shape))
        if at < min(edge, end):
            yield at
        else:
            at = max(edge, min(at, end))


def _mixed(
    seed: int, length: float, rate: Callable[[float], float], heavy: Callable[[float], float]
) -> list[Request]:
    """Return Poisson arrivals of ServeGen's clients; a share `heavy` brings more images."""
    rng = random.Random(seed)  # noqa: S311 (repeatable, not secret)
    _, clients = _clients()
    weights = [sum(client.rates) for client in clients]
    found: list[Request] = []
    at, most = 0.0, max(rate(float(second)) for second in range(0, int(length), 10))
    while True:
        at += rng.expovariate(most)
        if at >= length:
            return found
        if rng.random() * most > rate(at):
            continue
        request = rng.choices(clients, weights)[0].request(at, rng)
        if rng.random() < heavy(at):
            request = request._replace(image_tokens=HEAVY * request.image_tokens)
        found.append(request)


def _none(_: float) -> float:
    return 0.0


def _phase(seed: int) -> float:
    """Return when within a minute something starts: it knows nothing of anyone's ticks."""
    return random.Random(f"phase {seed}").uniform(0.0, MINUTE)  # noqa: S311 (repeatable, not secret)


def flash(seed: int) -> list[Request]:
    """Return two crowds of 2.5 times the traffic, image-heavy, 8 min every 40 min."""
    phase = _phase(seed)

    def crowd(at: float) -> bool:
        return 20 * MINUTE <= (at - phase) % (40 * MINUTE) < 28 * MINUTE

    return _mixed(
        seed,
        80 * MINUTE,
        lambda at: 20.0 if crowd(at) else 8.0,
        lambda at: 0.6 if crowd(at) else 0.0,
    )


def image_shift(seed: int) -> list[Request]:
    """Return a constant rate whose requests bring three times the images, and back."""

    def heavy(at: float) -> float:
        into = (at - 15 * MINUTE) / (15 * MINUTE)
        out = (60 * MINUTE - at) / (15 * MINUTE)
        return min(1.0, max(0.0, min(into, out)))

    return _mixed(seed, 75 * MINUTE, lambda _: 10.0, heavy)


def diurnal(seed: int) -> list[Request]:
    """Return a day pressed into an hour and a half: from 4 to 20 requests a second and back."""
    return _mixed(seed, DAY, lambda at: 12 - 8 * math.cos(2 * math.pi * at / DAY), _none)


def step(seed: int) -> list[Request]:
    """Return a step from 6 to 16 requests a second and back."""
    phase = _phase(seed)

    def rate(at: float) -> float:
        return 16.0 if 20 * MINUTE <= at - phase < 45 * MINUTE else 6.0

    return _mixed(seed, 75 * MINUTE, rate, _none)


TRACES: dict[str, Callable[[int], list[Request]]] = {
    "servegen": lambda seed: servegen(seed, scale=2.0, hours=1.25, first_window=9),
    "servegen-half": lambda seed: servegen(seed, scale=1.0, hours=1.25, first_window=60),
    "servegen-low": lambda seed: servegen(seed, scale=0.5, hours=1.25, first_window=96),
    "servegen-high": lambda seed: servegen(seed, scale=3.0, hours=1.0, first_window=8),
    "diurnal": diurnal,
    "step": step,
    "image-shift": image_shift,
    "flash": flash,
}
