"""Models whose requests cannot share a forward pass: each has a cache of transformers of its own.

A step still serves all requests, one after the other, so they join and leave as in any other
family; only the gain of a shared pass is missing. T5's relative positions and the cross attention
of all these families are computed by transformers for one length at a time.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mm_runtime.reference_engine.adapters import Adapter, AdapterFolder, Adapters
from mm_runtime.reference_engine.model import Part, Passed, SlotModel
from mm_runtime.serving.device import CPU, release_unused
from mm_runtime.serving.generate.request import Request


class UnbatchedModel(SlotModel):
    """Slots that hold whatever one request's forward passes need."""

    def __init__(self, slots: int, device: torch.device = CPU) -> None:
        self.device = device
        self._slots: list[Any] = [None] * (slots)
        self._adapter_of_slot: list[Adapter] = [None] * slots
        self._adapters = Adapters({}, ())

    def adapt(self, stacks: Mapping[str, Any], adapters: Sequence[AdapterFolder]) -> None:
        self._adapters = Adapters(stacks, adapters)

    def step(self, state: Any, ids: torch.Tensor, start: int) -> torch.Tensor:
        """Run tokens int64 [1, n] from position `start` on; return logits [n, vocabulary]."""
        raise NotImplementedError

    def open(self, request: Request) -> Any:
        raise NotImplementedError

    def prompt_length(self, request: Request) -> int:
        return len(request.prompt)

    @torch.inference_mode()
    def begin(self, slot: int, request: Request) -> torch.Tensor:
        self._adapter_of_slot[slot] = request.adapter
        self._adapters.aim([request.adapter])
        self._slots[slot] = self.open(request)
        return torch.tensor(request.prompt, dtype=torch.long, device=self.device)

    @torch.inference_mode()
    def run(
        self, tokens: Sequence[int], positions: Sequence[int], part: Part | None = None
    ) -> Passed:
        """Run one token in each of the first slots, then part of a prompt, in passes of their own.

        A decoder's prompt is read in parts as any other. What an encoder reads is not: it sees all
        of it at once, in `begin`.
        """
        rows: list[torch.Tensor] = []
        broken: dict[int, Exception] = {}
        for slot, (token, position) in enumerate(zip(tokens, positions, strict=True)):
            try:
                rows.append(self._decode(slot, token, position))
            except Exception as error:  # noqa: BLE001 (of this request; the engine ends it)
                broken[slot] = error
                rows.append(torch.zeros((1, self.vocabulary_size), device=self.device))
        decoded = torch.cat(rows) if rows else torch.zeros((0, self.vocabulary_size))
        if part is None:
            return Passed(decoded, decoded[:0], broken)
        slot = len(tokens)
        self._adapters.aim([self._adapter_of_slot[slot]])
        try:
            read = self.step(self._slots[slot], part.rows[None], part.start)
        except Exception as error:  # noqa: BLE001 (as above)
            broken[slot] = error
            read = torch.zeros((len(part.rows), self.vocabulary_size), device=self.device)
        return Passed(decoded if rows else read[:0], read, broken)

    def _decode(self, slot: int, token: int, position: int) -> torch.Tensor:
        self._adapters.aim([self._adapter_of_slot[slot]])
        return self.step(self._slots[slot], torch.tensor([[token]], device=self.device), position)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        return states.float()

    def move(self, source: int, target: int, length: int) -> None:
        del length  # a cache of its own holds no more than the request's positions
        self._slots[target], self._slots[source] = self._slots[source], None
        self._adapter_of_slot[target] = self._adapter_of_slot[source]

    def release_unused(self) -> None:
        release_unused(self.device)
