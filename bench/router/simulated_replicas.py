"""Replicas as queues without HTTP: how evenly a router's placement loads them, in simulated time.

Each replica works on some requests at one time, which share its tokens a second equally; others
wait in order. Three quarters of the requests are short questions, a quarter are long ones with long
answers, which are nine tenths of the work. Half are turns of chats, half have no key. Answers end
anywhere before their limit, which no router can know.
"""

import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from mm_router.demand import Work
from mm_router.fleet import Fleet, Visit
from mm_router.hold import HoldLimits, Holds
from mm_router.metrics import RouterMetrics
from mm_router.placement import FREE

MODEL = ("bench", "model")
TOKENS_PER_SECOND = 4000
"""Of a replica, prompts and answers alike."""
SLOTS = 8
"""Requests that a replica works on at one time."""

Weigh = Callable[[Work], Work]


def by_tokens(work: Work) -> Work:
    return work


def by_requests(_: Work) -> Work:
    """Weigh every request alike, so that two are no load: requests are counted."""
    return Work(0, FREE // 2)


@dataclass(slots=True)
class Request:
    """One request: what the router sees of it, and what it takes."""

    seen: Work
    prompt: float
    left: float
    is_short: bool
    arrived: float = 0.0
    began: bool = False
    visit: Visit | None = None

    def work(self, tokens: float) -> bool:
        assert self.visit is not None
        self.left -= tokens
        self.prompt -= tokens
        if self.prompt <= 0 and not self.began:
            self.began = True
            self.visit.prompt_done()
        if self.left > 1e-6:  # noqa: PLR2004  # tokens
            return False
        self.visit.end()
        return True


@dataclass(frozen=True)
class Evenness:
    """What became of a placement: means over arrivals.

    Attributes:
        spread_seconds: standard deviation of what the replicas have left to do.
        busiest_seconds: what the replica has left to do that has the most.
        short_wait_p95_seconds: until a short request gets a slot, 95th percentile.
        affinity: share of requests with a key that got its first replica.
    """

    spread_seconds: float
    busiest_seconds: float
    short_wait_p95_seconds: float
    affinity: float


def simulate(
    weigh: Weigh, *, seed: int, requests: int = 4000, replicas: int = 4, load: float = 0.8
) -> Evenness:
    """Send the same requests, which `seed` determines, by one way of weighing."""
    chance = random.Random(seed)  # noqa: S311  # the same requests for every way
    metrics = RouterMetrics()
    fleet = Fleet(metrics, Holds(HoldLimits(0, 0, 0.0), metrics, lambda: 0.0), lambda: 0.0)
    fleet.set_replicas(MODEL, [str(number) for number in range(replicas)])
    sent = [_request(chance) for _ in range(requests)]
    rate = load * replicas * TOKENS_PER_SECOND / statistics.fmean(one.left for one in sent)
    held: dict[str, list[Request]] = {str(number): [] for number in range(replicas)}
    waits: list[float] = []
    spreads, busiest, now = [], [], 0.0
    for number, request in enumerate(sent):
        seconds = chance.expovariate(rate)
        for queue in held.values():
            _advance(queue, now, seconds, waits)
        now += seconds
        # Chats have about four turns each, among those that came lately.
        chat = str(max(0, number // 4 - chance.randrange(50))).encode()
        key = chat if number % 2 else None
        request.visit, request.arrived = fleet.choose(MODEL, key, weigh(request.seen)), now
        assert request.visit is not None
        queue = held[request.visit.replica]
        queue.append(request)
        if len(queue) <= SLOTS and request.is_short:
            waits.append(0.0)
        left = [sum(one.left for one in queue) / TOKENS_PER_SECOND for queue in held.values()]
        spreads.append(statistics.pstdev(left))
        busiest.append(max(left))
    waits.sort()
    return Evenness(
        statistics.fmean(spreads),
        statistics.fmean(busiest),
        waits[int(0.95 * len(waits))],
        _placed(metrics, "affinity") / (_placed(metrics, "affinity") + _placed(metrics, "spill")),
    )


def _placed(metrics: RouterMetrics, by: str) -> float:
    labels = {"model": "/".join(MODEL), "by": by}
    return metrics.registry.get_sample_value("mm_router_placements_total", labels) or 0.0


def _request(chance: random.Random) -> Request:
    is_short = chance.random() < 0.75  # noqa: PLR2004  # three quarters
    prompt = chance.randrange(50, 400) if is_short else chance.randrange(2000, 8000)
    longest = 256 if is_short else 2048
    seen = Work(int(prompt * chance.uniform(0.7, 1.4)), longest)
    return Request(seen, prompt, prompt + chance.uniform(0.1, 1.0) * longest, is_short)


def _advance(queue: list[Request], now: float, seconds: float, waits: list[float]) -> None:
    """Let a replica work for some time, and note how long short requests waited for a slot."""
    left = seconds * TOKENS_PER_SECOND
    while queue and left > 0:
        running = queue[:SLOTS]
        part = min(left / len(running), *(one.left for one in running))
        left -= part * len(running)
        ended = [one for one in running if one.work(part)]
        began = queue[SLOTS : SLOTS + len(ended)]
        at = now + seconds - left / TOKENS_PER_SECOND
        waits += [at - one.arrived for one in began if one.is_short]
        for one in ended:
            queue.remove(one)
