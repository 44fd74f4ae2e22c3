"""Ask an engine that was just built one question, and keep the answer that it is sure of.

The parts of the server run in this process, connected as its ensemble connects them. Pods of the
engine are not ready before they answer the same.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import numpy as np

from mm_api.documents.engine_manifest import EngineManifest, GoldenPrompt
from mm_runtime.build.commands.step import StepContext, run_step
from mm_runtime.build.durable import write_durably
from mm_runtime.build.golden import is_asked
from mm_runtime.engine.chain import Chain, Outputs, Step
from mm_runtime.engine.directory import EngineDirectory
from mm_runtime.engine.encoding import encode_requests
from mm_runtime.engine.errors import RequestError
from mm_runtime.engine.generation import read_request, write_piece
from mm_runtime.engine.media import MediaLimits
from mm_runtime.engine.postprocessing import write_text
from mm_runtime.engine.preprocessing import Preprocessor
from mm_runtime.engine.processors import load_processor
from mm_runtime.engine.questions import load_questions
from mm_runtime.engine.reference.load import LoadedEngine, load_engine
from mm_runtime.engine.reference.request import Piece
from mm_runtime.engine.tensors import Tensors
from mm_runtime.engine.tokens import TextCodec
from mm_runtime.engine.vision.load import load_encoder
from mm_runtime.pictures.sample import sample_picture
from mm_runtime.repository.configs import multimodal_encoders
from mm_runtime.repository.configs.ensemble import STEPS

log = logging.getLogger(__name__)

TEXT = "What is in the image?"
SENTENCE = "translate English to German: the house is wonderful ."
"""Of engines without pictures: what T5's paper asks. Others translate it or go on with it."""

MOST_TOKENS = 8

SURE = {"float32": 0.1}
UNSURE = 1.0
"""By how much a token's logit must lead the next one's to be kept. Chosen far above what rounding
does to logits of small models on other processors and in other batches; that was not measured."""

PIECE_SECONDS = 60.0


def keep_golden_prompt(context: StepContext) -> None:
    """Write `golden.json`, where the engine can be asked here and is sure of a token."""
    plan, places = context.plan, context.places
    places.golden.unlink(missing_ok=True)  # of a step that was killed
    if not is_asked(plan):
        return
    manifest = EngineManifest(
        fingerprint=plan.fingerprint,
        created=datetime.now(UTC),
        plan=plan,
        files=[],
        steps=[],
        versions={},
    )
    try:
        golden = _golden(EngineDirectory(places.unfinished, manifest))
    except Exception as error:  # noqa: BLE001 - a help to pods; a build does not fail for want of it
        log.info("no golden answer: %s", error)
        return
    if golden.tokens:
        write_durably(places.golden, golden.to_json())
    log.info("golden answer: %d tokens, %r", len(golden.tokens), golden.answer)


def _golden(directory: EngineDirectory) -> GoldenPrompt:
    """Return the question and what the engine is sure to answer."""
    loaded = load_engine(directory, max_queue_size=1, cancellation_check_seconds=1.0)
    calls = _InProcess(directory, loaded)
    sees = directory.vision is not None
    chain = Chain(
        steps=[
            Step(one.model_name, one.input_map, one.output_map)
            for one in STEPS
            if sees or one.model_name != multimodal_encoders.NAME
        ],
        outputs=frozenset({"_TOKENS_BATCH", "_SEQUENCE_LENGTH", "generation_logits"}),
        accumulate=False,
    )
    text = TEXT if sees else SENTENCE
    inputs: Outputs = {
        "text_input": np.array([[text.encode()]], dtype=np.object_),
        "max_tokens": np.array([[MOST_TOKENS]], dtype=np.int32),
        "top_k": np.array([[1]], dtype=np.int32),
        "stream": np.array([[True]]),
        "return_generation_logits": np.array([[True]]),
    }
    if sees:
        inputs["image_bytes_input"] = sample_picture()[np.newaxis, np.newaxis]
    loaded.engine.start()
    try:
        pieces = [piece for piece, _ in chain.answer(inputs, calls, lambda: False)]
    finally:
        loaded.engine.stop()
    lead = SURE.get(directory.manifest.plan.engine.dtype, UNSURE)
    tokens = list(_sure(pieces, lead))
    return GoldenPrompt(
        text=text,
        pictures=int(sees),
        tokens=tokens,
        answer=calls.decoded(tokens),
    )


def _sure(pieces: Sequence[Outputs], lead: float) -> Iterator[int]:
    """Yield tokens up to the first whose logit does not lead by so much."""
    for piece in pieces:
        count = int(piece["_SEQUENCE_LENGTH"].item())
        logits = piece["generation_logits"].reshape(-1, piece["generation_logits"].shape[-1])
        for token, row in zip(piece["_TOKENS_BATCH"].reshape(-1)[:count], logits, strict=False):
            first, second = np.partition(row, -2)[:-3:-1]
            if first - second < lead or int(row.argmax()) != token:
                return
            yield int(token)


class _InProcess:
    """The ensemble's models, asked in this process."""

    def __init__(self, directory: EngineDirectory, loaded: LoadedEngine) -> None:
        vision = directory.vision
        codec = TextCodec(directory.tokenizer)
        self._codec = codec
        self._loaded = loaded
        self._preprocessor = Preprocessor(
            codec=codec,
            questions=load_questions(directory, codec),
            pictures=load_processor(directory, vision) if vision else None,
            engine=directory,
            media=MediaLimits(1 << 20, 1 << 20),
            max_images=1,
            max_frames=1,
        )
        self._encoder = load_encoder(directory, vision) if vision else None

    def decoded(self, tokens: Sequence[int]) -> str:
        """Return the text of a whole answer, as a stream of it joins to."""
        whole = np.array([[list(tokens)]], dtype=np.int32)
        length = np.array([[len(tokens)]], dtype=np.int32)
        written = write_text(self._codec.decode, {"TOKENS_BATCH": whole, "SEQUENCE_LENGTH": length})
        text: bytes = written["OUTPUT"][0, 0]
        return text.decode()

    def once(self, model: str, inputs: Tensors, outputs: Sequence[str]) -> Outputs:
        """Return what a model answers."""
        del outputs
        if model == "preprocessing":
            return self._preprocessor.prepare(inputs)
        if self._encoder is not None and model == multimodal_encoders.NAME:
            encoded = encode_requests(self._encoder, [inputs], np.float32)[0]
            if isinstance(encoded, RequestError):
                raise encoded
            return encoded
        return write_text(self._codec.decode, inputs)

    def pieces(self, model: str, inputs: Tensors, outputs: Sequence[str]) -> Iterator[Outputs]:
        """Yield the language model's responses."""
        del model, outputs
        sink = _Collected()
        self._loaded.engine.submit(
            read_request(
                inputs,
                end_ids=self._loaded.end_ids,
                vocabulary_size=self._loaded.vocabulary_size,
                fresh_seed=0,
                encoder_decoder=self._loaded.encoder_decoder,
            ),
            sink,
        )
        yield from (write_piece(piece) for piece in sink.wait())

    def stop(self) -> None:
        """Do nothing: the answer is short."""


class _Collected:
    """Keeps the pieces of one answer."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._error: Exception | None = None
        self._ended = threading.Event()

    def wait(self) -> list[Piece]:
        """Return all pieces."""
        if not self._ended.wait(PIECE_SECONDS):
            raise TimeoutError(f"no answer within {PIECE_SECONDS:.0f} s")
        if self._error is not None:
            raise self._error
        return self._pieces

    def send(self, piece: Piece) -> None:
        """Keep a piece."""
        self._pieces.append(piece)
        if piece.finish is not None:
            self._ended.set()

    def fail(self, error: Exception) -> None:
        """Keep the error."""
        self._error = error
        self._ended.set()

    def cancelled(self) -> None:
        """Be told of an end that nobody asked for."""
        self.fail(RuntimeError("the request was dropped"))

    def is_cancelled(self) -> bool:
        """Say that somebody waits."""
        return False


if __name__ == "__main__":
    run_step(keep_golden_prompt)
