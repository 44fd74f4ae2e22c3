"""From the logits of one request to its next token."""

from collections.abc import Sequence

import torch

from mm_runtime.serving.generate.request import Request

NEVER = float("-inf")


class TokenChooser:
    """Chooses the tokens of one request; holds its random generator and what it must avoid."""

    def __init__(self, request: Request, vocabulary_size: int) -> None:
        """Seed the generator; ids of the prompt table count as no token."""
        self._request = request
        self._generator = torch.Generator().manual_seed(request.sampling.seed)
        self._bias = None if request.bias is None else torch.from_numpy(request.bias.copy())
        self._prompt = torch.tensor(
            [token for token in request.decoder_ids or request.ids if token < vocabulary_size],
            dtype=torch.long,
        )
        sampling = request.sampling
        self.unrestricted = (
            request.bias is None
            and not request.bad
            and sampling.min_tokens == 0
            and sampling.repetition_penalty == 1.0
            and sampling.presence_penalty == 0.0
            and sampling.frequency_penalty == 0.0
        )
        """`restrict` changes nothing."""

        self.plain = sampling.greedy and self.unrestricted
        """The likeliest token is always right: all such requests of a step share one argmax."""

    def choose(self, logits: torch.Tensor, answer: Sequence[int]) -> int:
        """Return the next token.

        Args:
            logits: float32 [vocabulary] of the next position.
            answer: tokens of the answer so far.
        """
        logits = self.restrict(logits, answer)
        if self._request.sampling.greedy:
            return int(logits.argmax())
        return self._sample(logits)

    def restrict(self, logits: torch.Tensor, answer: Sequence[int]) -> torch.Tensor:
        """Return logits after bias, penalties and prohibitions, in TensorRT-LLM's order."""
        logits = logits.clone()
        sampling = self._request.sampling
        if self._bias is not None:
            logits += self._bias
        said = torch.tensor(list(answer), dtype=torch.long)
        if sampling.repetition_penalty != 1.0:
            seen = torch.cat([self._prompt, said])
            values, factor = logits[seen], sampling.repetition_penalty
            logits[seen] = torch.where(values > 0, values / factor, values * factor)
        if sampling.presence_penalty != 0.0 or sampling.frequency_penalty != 0.0:
            counts = torch.bincount(said, minlength=len(logits)).to(logits.dtype)
            logits -= sampling.presence_penalty * (counts > 0) + sampling.frequency_penalty * counts
        for word in self._request.bad:
            if tuple(answer[len(answer) - len(word) + 1 :]) == word[:-1]:
                logits[word[-1]] = NEVER
        if len(answer) < sampling.min_tokens:
            logits[list(self._request.end_ids)] = NEVER
        return logits

    def _sample(self, logits: torch.Tensor) -> int:
        """Draw from the most likely tokens: `top_k` of them, then `top_p` of their mass."""
        sampling = self._request.sampling
        ordered, tokens = (logits / sampling.temperature).sort(descending=True, stable=True)
        if sampling.top_k > 0:
            ordered, tokens = ordered[: sampling.top_k], tokens[: sampling.top_k]
        probabilities = ordered.softmax(dim=-1)
        if 0.0 < sampling.top_p < 1.0:
            # A token stays when the mass before it is under top_p; so the first one always does.
            before = probabilities.cumsum(dim=-1) - probabilities
            probabilities = torch.where(before < sampling.top_p, probabilities, 0.0)
        if sampling.min_p > 0.0:
            least = sampling.min_p * probabilities[0]
            probabilities = torch.where(probabilities >= least, probabilities, 0.0)
        drawn = torch.multinomial(probabilities, 1, generator=self._generator)
        return int(tokens[drawn])
