"""Engines that know the prompts that they have read: replicas of an image model in simulated time.

A step gives every running request a token and reads at most `STEP_TOKENS` of prompts, the oldest
first, as vLLM's scheduler does. A prompt is a prefix that other prompts begin with (images and some
text) and a question. What is known of either is not read again, the least recently used is
forgotten first, and what running requests use is kept.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from mm_router.demand import Demand
from mm_router.fleet import Visit

STEP_TOKENS = 8192
"""`max_num_batched_tokens`, vLLM's default on this GPU."""


class Costs(NamedTuple):
    """Of one replica: seconds, and tokens that its KV cache holds."""

    step: float
    step_of_request: float
    text_token: float
    image_token: float
    """Beyond that of text: the encoder's."""
    cached_tokens: int


QWEN3_VL_32B = Costs(
    # 66 GB of weights in two GPUs at 65 % of 4.8 TB/s; 4,300 tokens of 262,144 bytes each.
    step=66e9 / 2 / (0.65 * 4.8e12),
    step_of_request=4300 * 262144 / 2 / (0.65 * 4.8e12),
    # The guide's `peakPrefillThroughput`, measured by them for this model and these GPUs.
    text_token=1 / 15751,
    # Half of the rest of their median first token at 5 requests a second, of three images of 900
    # tokens: 0.401 s - 4,000 / 15,751. The other half is taken as preprocessing beside the engine,
    # and is left out: with all of it their Service would be full at 20 requests a second, not 25.
    image_token=0.5 * (0.401 - 4000 / 15751) / 2700,
    # 90 % of 2 x 141 GB, less the weights and 6 GB of activations.
    cached_tokens=int((0.9 * 282e9 - 72e9) / 262144),
)


@dataclass(slots=True, eq=False)
class Request:
    """One request: what it holds, and what became of it.

    Attributes:
        prefix: name of what its prompt shares with others; "": nothing.
        prompt: name of the prompt; the same again is known but for its last token.
        image_tokens: of images, which are part of the prefix.
    """

    at: float
    prefix: str
    prompt: str
    image_tokens: int
    prefix_text: int
    question: int
    output: int
    key: bytes | None
    demand: Demand
    visit: Visit | None = None
    replica: int = 0
    left: int = 0
    images_left: int = 0
    first_token: float = 0.0
    ended: float = 0.0

    @property
    def prompt_tokens(self) -> int:
        return self.image_tokens + self.prefix_text + self.question


@dataclass
class Engine:
    """One replica. `start` begins a step, `end` ends it and returns the requests it served."""

    costs: Costs
    waiting: deque[Request] = field(default_factory=deque)
    reading: Request | None = None
    known: OrderedDict[str, int] = field(default_factory=OrderedDict)
    used: dict[str, int] = field(default_factory=dict)
    held: int = 0
    steps: int = 0
    is_busy: bool = False
    running: list[tuple[int, int, Request]] = field(default_factory=list)
    _numbers: int = 0
    _read: list[Request] = field(default_factory=list)

    def start(self) -> float | None:
        """Return how long the next step takes; None: there is nothing to do."""
        budget, seconds = STEP_TOKENS, 0.0
        self._read = []
        while budget and (request := self.reading or self._admitted()):
            part = min(budget, request.left)
            images = min(part, request.images_left)
            seconds += part * self.costs.text_token + images * self.costs.image_token
            budget -= part
            request.left -= part
            request.images_left -= images
            self.reading = request if request.left else None
            if not request.left:
                self._read.append(request)
        if not seconds and not self.running:
            self.is_busy = False
            return None
        self.is_busy = True
        return seconds + self.costs.step + self.costs.step_of_request * len(self.running)

    def end(self, now: float) -> tuple[list[Request], list[Request]]:
        """Return whose first token came, and who is complete."""
        self.steps += 1
        done = []
        while self.running and self.running[0][0] <= self.steps:
            done.append(heappop(self.running)[2])
        for request in self._read:
            request.first_token = now
            self._numbers += 1
            heappush(self.running, (self.steps + request.output - 1, self._numbers, request))
        for request in done:
            request.ended = now
            self._use(request, -1)
        return self._read, done

    def _admitted(self) -> Request | None:
        """Return the next request that has its place in the KV cache from now on."""
        if not self.waiting:
            return None
        request = self.waiting[0]
        needed = sum(tokens for name, tokens in self._parts(request) if name not in self.known)
        if not self._fits(needed) and (self.running or self._read):
            return None
        self.waiting.popleft()
        request.left, request.images_left = request.prompt_tokens, request.image_tokens
        if request.prefix in self.known:
            request.left, request.images_left = request.question, 0
            if request.prompt in self.known:
                request.left = 1
        self._use(request, 1)
        return request

    def _parts(self, request: Request) -> tuple[tuple[str, int], tuple[str, int]]:
        prefix = request.image_tokens + request.prefix_text
        return (request.prefix, prefix), (request.prompt, request.question + request.output)

    def _use(self, request: Request, change: int) -> None:
        for name, tokens in self._parts(request):
            if name not in self.known:
                self.known[name] = tokens
                self.held += tokens
            self.known.move_to_end(name)
            self.used[name] = self.used.get(name, 0) + change
            if not self.used[name]:
                del self.used[name]

    def _fits(self, tokens: int) -> bool:
        for name in list(self.known) if self.held + tokens > self.costs.cached_tokens else ():
            if self.held + tokens <= self.costs.cached_tokens:
                break
            if name not in self.used:
                self.held -= self.known.pop(name)
        return self.held + tokens <= self.costs.cached_tokens
