"""Encoder-decoders on torch: T5 and its kin, BART, mBART, FairSeq's transformer, Whisper.

The encoder reads a request once, when it gets its slot. What it reads are `input_ids`, or for
Whisper `encoder_input_features`; the decoder's prompt are `decoder_input_ids`.
"""

from dataclasses import dataclass
from typing import Any

import torch
import transformers
from transformers import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from mm_api.families import FAMILIES, SERVED
from mm_api.families.family import Kind
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.choosing import NEVER
from mm_runtime.reference_engine.language_model import load_full_model
from mm_runtime.reference_engine.unbatched import UnbatchedModel
from mm_runtime.serving.device import as_tensor
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.generate.request import Request

KINDS = {
    name: FAMILIES[name].transformers_class
    for name in SERVED
    if FAMILIES[name].kind is Kind.ENCODER_DECODER
}
"""Family -> class of transformers."""


@dataclass
class _State:
    encoded: BaseModelOutput
    cache: EncoderDecoderCache
    first: int
    """Position whose logits choose the answer's first token."""

    is_question: bool = False
    """It is a question to the model, in which language or whether anything is said."""


class EncoderDecoderModel(UnbatchedModel):
    """Both halves of one checkpoint."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint.slots, checkpoint.device)
        family = checkpoint.family
        self._model: Any = load_full_model(
            getattr(transformers, KINDS[family]),
            checkpoint.folder,
            getattr(torch, checkpoint.dtype),
        )
        self._encoder: Any = self._model.get_encoder()
        self.adapt(
            {"encoder": self._encoder, "decoder": self._model.get_decoder()}, checkpoint.adapters
        )
        self._model.to(self.device)
        self._accepts_audio = FAMILIES[family].reads_audio
        self._max_encoder_length = checkpoint.max_length
        config, generation = self._model.config, self._model.generation_config
        # Whisper never says its marks of music and speakers, and never begins with a space.
        self._suppressed = list(getattr(generation, "suppress_tokens", None) or ())
        self._suppressed_first = list(getattr(generation, "begin_suppress_tokens", None) or ())
        self.vocabulary_size = int(getattr(config, "tgt_vocab_size", None) or config.vocab_size)
        self._source_size = int(getattr(config, "src_vocab_size", None) or config.vocab_size)

    def check(self, request: Request) -> None:
        """Refuse what encoder or decoder cannot read."""
        if request.table is not None:
            raise RequestError("prompt_embedding_table: this model takes no images")
        if not request.decoder_ids:
            raise RequestError("decoder_input_ids is missing: the decoder needs a start token")
        if not all(0 <= token < self.vocabulary_size for token in request.decoder_ids):
            raise RequestError(f"decoder_input_ids must be 0 to {self.vocabulary_size - 1}")
        if self._accepts_audio:
            self._check_audio(request)
            return
        if request.features is not None:
            raise RequestError("encoder_input_features: this model reads text; send input_ids")
        count = len(request.ids)
        if not 1 <= count <= self._max_encoder_length:
            raise RequestError(
                f"the text has {count} tokens; 1 to {self._max_encoder_length} are allowed "
                "(maxEncoderInputLen)"
            )
        if not all(0 <= token < self._source_size for token in request.ids):
            raise RequestError(f"input_ids must be 0 to {self._source_size - 1}")

    def _check_audio(self, request: Request) -> None:
        config = self._model.config
        frames, bins = 2 * config.max_source_positions, config.num_mel_bins
        if request.features is None or request.features.shape != (frames, bins):
            shape = None if request.features is None else list(request.features.shape)
            raise RequestError(
                f"encoder_input_features: got {shape}, expected the log-mel spectrogram of 30 "
                f"seconds as [{frames}, {bins}]"
            )

    def open(self, request: Request) -> _State:
        """Run the encoder."""
        if request.features is not None:
            mel = as_tensor(request.features, self.device, self._model.dtype, copy=True)
            encoded = self._encoder(mel.T[None])
        else:
            ids = torch.tensor([request.ids], device=self.device)
            encoded = self._encoder(input_ids=ids)
        return _State(
            BaseModelOutput(last_hidden_state=encoded[0]),
            EncoderDecoderCache(DynamicCache(), DynamicCache()),
            first=len(request.decoder_ids) - 1,
            # One token behind the start alone, with logits: no answer, which has rules, begins.
            is_question=request.wanted.generation_logits
            and request.max_tokens == len(request.decoder_ids) == 1,
        )

    def step(self, state: _State, ids: torch.Tensor, start: int) -> torch.Tensor:
        """Run the decoder over some tokens."""
        output = self._model(
            encoder_outputs=state.encoded,
            decoder_input_ids=ids,
            past_key_values=state.cache,
            use_cache=True,
        )
        logits: torch.Tensor = output.logits[0]
        if state.is_question:
            return logits
        logits[:, self._suppressed] = NEVER
        if start <= state.first < start + len(logits):
            logits[state.first - start, self._suppressed_first] = NEVER
        return logits
