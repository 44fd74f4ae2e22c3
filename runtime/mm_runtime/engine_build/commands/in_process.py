"""The ensemble's models in one process: what a built engine answers where no server runs."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from mm_runtime.errors import WeightsUnusableError
from mm_runtime.reference_engine.load import LoadedEngine, load_engine
from mm_runtime.repository.configs import multimodal_encoders
from mm_runtime.repository.configs.ensemble import chosen_steps
from mm_runtime.serving.bls.pipeline import BlsPipeline, Outputs, Step
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.encoding import encode_requests
from mm_runtime.serving.encode.vision.features import RequestEncoder
from mm_runtime.serving.encode.vision.load import load_encoder
from mm_runtime.serving.errors import NotFiniteError
from mm_runtime.serving.generate.generation import join_pieces, read_request, write_piece
from mm_runtime.serving.generate.request import Piece
from mm_runtime.serving.postprocess.postprocessing import write_text
from mm_runtime.serving.preprocess.audio.prefixes import accepts_audio
from mm_runtime.serving.preprocess.by_family import AudioPreprocessor
from mm_runtime.serving.preprocess.media import MediaLimits
from mm_runtime.serving.preprocess.preprocessing import Preprocessor
from mm_runtime.serving.preprocess.processors import load_processor
from mm_runtime.serving.prompts.questions import load_questions
from mm_runtime.serving.prompts.tokens import TextCodec
from mm_runtime.serving.tensors import Tensors

ANSWER_SECONDS = 900.0
"""Limit of one answer: a prompt of 600 tokens takes two cores minutes with 7 billion weights."""

TOKENS, COUNT, LOGITS = "_TOKENS_BATCH", "_SEQUENCE_LENGTH", "generation_logits"
"""Outputs of an answer."""


@contextmanager
def in_process(
    directory: EngineDirectory, encoder: RequestEncoder | None = None
) -> Iterator["InProcess"]:
    """Load an engine; its language model runs until the block ends.

    `encoder`: encodes images; None: the engine's own vision half.
    """
    loaded = load_engine(directory, max_queue_size=1, cancellation_check_seconds=1.0)
    models = InProcess(directory, loaded, encoder)
    loaded.engine.start()
    try:
        yield models
    finally:
        loaded.engine.stop()


def greedy(text: str, most_tokens: int) -> Outputs:
    """Return the inputs of a request for the likeliest tokens, with what they were chosen from."""
    return {
        "text_input": np.array([[text.encode()]], dtype=np.object_),
        "max_tokens": np.array([[most_tokens]], dtype=np.int32),
        "top_k": np.array([[1]], dtype=np.int32),
        "stream": np.array([[True]]),
        "return_generation_logits": np.array([[True]]),
    }


def _ensemble_steps(directory: EngineDirectory) -> list[Step]:
    chosen = chosen_steps(
        accepts_audio=accepts_audio(directory), has_vision=directory.vision is not None
    )
    return [Step(one.model_name, one.input_map, one.output_map) for one in chosen]


class InProcess:
    """The models of one engine; implements `mm_runtime.serving.bls.pipeline.Calls`."""

    def __init__(
        self,
        directory: EngineDirectory,
        loaded: LoadedEngine,
        encoder: RequestEncoder | None = None,
    ) -> None:
        """Load what stands before and behind the language model."""
        vision = directory.vision
        codec = TextCodec(directory.tokenizer)
        self._codec = codec
        self._loaded = loaded
        self._preprocessor = (
            AudioPreprocessor.load(directory)
            if accepts_audio(directory)
            else Preprocessor(
                codec=codec,
                questions=load_questions(directory, codec),
                image_processor=load_processor(directory),
                engine=directory,
                media=MediaLimits(1 << 20, 1 << 20),
                max_images=1,
                max_frames=1,
            )
        )
        own = encoder is None and vision is not None
        self._encoder = load_encoder(directory, vision) if own and vision else encoder
        self._pipeline = BlsPipeline(
            steps=_ensemble_steps(directory),
            outputs=frozenset({TOKENS, COUNT, LOGITS}),
            accumulate=False,
        )

    @property
    def end_ids(self) -> frozenset[int]:
        return self._loaded.end_ids

    def answer(self, inputs: Outputs) -> list[Outputs]:
        """Return the responses to a request.

        Raises:
            RequestError: it is not one that the engine can answer.
            WeightsUnusableError: what is computed of it is not finite.
        """
        try:
            return [piece for piece, _ in self._pipeline.answer(inputs, self, lambda: False)]
        except NotFiniteError as error:
            raise WeightsUnusableError(
                f"The checkpoint answers a prompt of the build's with no numbers: {error}. Use a"
                " dtype of a greater range (spec.engine.dtype), or another checkpoint."
            ) from error

    def decoded(self, tokens: Sequence[int]) -> str:
        """Return the text of a complete answer, as a stream of it joins to."""
        ids = np.array([[list(tokens)]], dtype=np.int32)
        length = np.array([[len(tokens)]], dtype=np.int32)
        written = write_text(self._codec.decode, {"TOKENS_BATCH": ids, "SEQUENCE_LENGTH": length})
        text: bytes = written["OUTPUT"][0, 0]
        return text.decode()

    def once(self, model: str, inputs: Tensors, outputs: Sequence[str]) -> Outputs:
        del outputs
        if model == "preprocessing":
            return self._preprocessor.prepare(inputs)
        if self._encoder is not None and model == multimodal_encoders.NAME:
            encoded = encode_requests(self._encoder, [inputs], np.float32)[0]
            if isinstance(encoded, Exception):
                raise encoded
            return encoded
        return write_text(self._codec.decode, inputs)

    def pieces(self, model: str, inputs: Tensors, outputs: Sequence[str]) -> Iterator[Outputs]:
        """Yield the language model's answer, as one response."""
        del model
        sink = _Collected()
        self._loaded.engine.submit(
            read_request(
                inputs,
                end_ids=self._loaded.end_ids,
                vocabulary_size=self._loaded.vocabulary_size,
                fresh_seed=0,
                encoder_decoder=self._loaded.encoder_decoder,
                adapters=self._loaded.adapters,
            ),
            sink,
        )
        yield write_piece(join_pieces(sink.wait()), (), outputs)

    def stop(self) -> None:
        """Do nothing: the answer is short."""


class _Collected:
    """Keeps the pieces of one answer."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._error: Exception | None = None
        self._ended = threading.Event()

    def wait(self) -> list[Piece]:
        if not self._ended.wait(ANSWER_SECONDS):
            raise TimeoutError(f"no answer within {ANSWER_SECONDS:.0f} s")
        if self._error is not None:
            raise self._error
        return self._pieces

    def send(self, piece: Piece) -> None:
        self._pieces.append(piece)
        if piece.finish is not None:
            self._ended.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._ended.set()

    def cancelled(self) -> None:
        self.fail(RuntimeError("the request was dropped"))

    def is_cancelled(self) -> bool:
        return False
