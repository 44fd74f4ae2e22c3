"""The rule of llm-d's guide to multimodal serving, written again from its sources.

llm-d-router at ebab687 (2026-08-22): `token-producer` (estimate), `approx-prefix-cache-producer`,
`inflight-load-producer`, `prefix-cache-affinity-filter`, `token-load-scorer`, `max-score-picker`,
with the values of guides/multimodal-serving/aggregation/router/aggregation.values.yaml.
"""

import random
from collections import OrderedDict

from engines import Request

BLOCK = 64
"""Tokens: `minBlockSizeTokens`, whatever an engine reports."""
AFFINITY_THRESHOLD, MAX_TTFT_PENALTY_MS, PEAK_PREFILL_THROUGHPUT = 0.6, 36_000.0, 15_751.0


class LlmdRule:
    """Which replica gets a request, by what was sent to each before.

    `blocks`: that a replica is taken to know, `cache_config_info`'s number of its KV cache.
    """

    def __init__(self, replicas: int, blocks: int, seed: int) -> None:
        self._known: list[OrderedDict[str, int]] = [OrderedDict() for _ in range(replicas)]
        self._held = [0] * replicas
        self._blocks = blocks
        self._in_flight = [0] * replicas
        self._added: dict[int, int] = {}
        self._chance = random.Random(seed)  # noqa: S311 (repeatable, not secret)

    def choose(self, request: Request) -> int:
        replicas = range(len(self._known))
        total = request.prompt_tokens // BLOCK
        matched = [self._matched(request, one) for one in replicas]
        sticky = [one for one in replicas if total and matched[one] / total >= AFFINITY_THRESHOLD]
        others = [one for one in replicas if one not in sticky]
        candidates = list(replicas)
        if sticky:
            late = min(self._ttft_ms(one) for one in sticky)
            soon = min((self._ttft_ms(one) for one in others), default=late)
            candidates = candidates if late - soon > MAX_TTFT_PENALTY_MS else sticky
        self._chance.shuffle(candidates)
        uncached = [max(0, request.prompt_tokens - BLOCK * one) for one in matched]
        chosen = min(candidates, key=lambda one: self._in_flight[one] + uncached[one])
        self._in_flight[chosen] += uncached[chosen]
        self._added[id(request)] = uncached[chosen]
        self._remember(request, chosen)
        return chosen

    def first_token(self, request: Request) -> None:
        """Release the prompt: `addEstimatedOutputTokens` is false by default."""
        self._in_flight[request.replica] -= self._added.pop(id(request))

    def _ttft_ms(self, replica: int) -> float:
        return self._in_flight[replica] / PEAK_PREFILL_THROUGHPUT * 1000

    def _parts(self, request: Request) -> tuple[tuple[str, int], tuple[str, int]]:
        prefix = (request.image_tokens + request.prefix_text) // BLOCK
        return (request.prefix, prefix), (request.prompt, request.prompt_tokens // BLOCK - prefix)

    def _matched(self, request: Request, replica: int) -> int:
        """Return the blocks from the first on that a replica knows."""
        known, blocks = self._known[replica], 0
        for name, size in self._parts(request):
            if name not in known:
                break
            blocks += size
        return blocks

    def _remember(self, request: Request, replica: int) -> None:
        known = self._known[replica]
        for name, size in self._parts(request):
            if name not in known:
                known[name] = size
                self._held[replica] += size
            known.move_to_end(name)
        while self._held[replica] > self._blocks:
            self._held[replica] -= known.popitem(last=False)[1]
