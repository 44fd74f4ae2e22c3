"""A pass that is begun before the tokens of the pass before it are known to the processor.

A device that computes what it was given while the processor prepares more has nothing to compute
from the end of a pass until its tokens are copied, accepted and sent back as inputs of the next. So
the next pass takes them where they were chosen ("overlap scheduling" of TensorRT-LLM, "async
scheduling" of vLLM). What the processor finds out meanwhile costs one row of one pass: an answer
that a token has ended was computed once more, at a place of its slot that nothing reads.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mm_runtime.reference_engine.model import Part, Passed
from mm_runtime.reference_engine.running import Running


@dataclass(frozen=True)
class Overlapped:
    """A pass that was begun: what it computes if no token of the one before ends an answer."""

    decoding: Sequence[Running]
    """Requests of its first tokens, in the order of their slots."""

    part: Part | None
    passed: Passed

    def of(self, decoding: Sequence[Running]) -> Passed:
        """Return what it computes of requests that still decode, in the order of their slots."""
        if len(self.decoding) == len(decoding):  # the others move only when one leaves
            return self.passed
        places = {id(running): place for place, running in enumerate(self.decoding)}
        rows = [places[id(running)] for running in decoding]
        # Row by row: an index would be copied to the device.
        states = [self.passed.decoded[row : row + 1] for row in rows]
        decoded = torch.cat(states) if states else self.passed.decoded[:0]
        return Passed(decoded, self.passed.read, self.passed.broken)


def continuing(advancing: Sequence[Running]) -> Sequence[Running] | None:
    """Return those that a pass after the next token decodes; None: that depends on the token.

    `advancing`: get a token, in the order of their slots. The last one may end with it, such as a
    prompt whose answer is a single token: those before it keep their slots.
    """
    staying = advancing if advancing[-1].continues else advancing[:-1]
    return staying if all(running.continues for running in staying) else None
