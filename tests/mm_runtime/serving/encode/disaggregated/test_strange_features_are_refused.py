"""What is no answer of this engine's own encoder never reaches the language model."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from socketserver import BaseRequestHandler, ThreadingTCPServer

import numpy as np
import pytest

from mm_api.documents.engine_manifest import EngineFile, EngineManifest
from mm_runtime.serving.encode.disaggregated import client as client_module
from mm_runtime.serving.encode.disaggregated.client import (
    OWN_IDENTITY,
    EncoderChannel,
    EncoderClient,
    EncoderError,
    FallbackReason,
)
from mm_runtime.serving.encode.disaggregated.identity import vision_identity
from mm_runtime.serving.encode.disaggregated.responses import ExpectedFeatures
from mm_runtime.serving.tensors import BFLOAT16_BITS, of_bfloat16
from support.cases import cases
from support.documents import FACTS, manifest
from support.scripted_encoder import Sent, Tensors, message_of, scripted_encoder

SECONDS = 60.0
CHUNK = 4096


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


@contextmanager
def cut_relay(address: str, length: int) -> Iterator[str]:
    host, _, port = address.rpartition(":")

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            client: socket.socket = self.request
            with (
                suppress(OSError),  # a side that has ended
                client,
                socket.create_connection((host, int(port)), SECONDS) as server,
            ):
                forward = threading.Thread(target=_copy, args=(client, server), daemon=True)
                forward.start()
                _copy(server, client, length)
                client.shutdown(socket.SHUT_RDWR)
                server.shutdown(socket.SHUT_RDWR)
                forward.join(SECONDS)

    with _Server(("127.0.0.1", 0), Handler) as relay:
        thread = threading.Thread(target=relay.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{relay.server_address[1]}"
        finally:
            relay.shutdown()
            thread.join(SECONDS)


def _copy(source: socket.socket, target: socket.socket, length: int | None = None) -> None:
    left = length
    with suppress(OSError):
        while left is None or left > 0:
            piece = source.recv(CHUNK if left is None else min(CHUNK, left))
            if not piece:
                return
            target.sendall(piece)
            left = None if left is None else left - len(piece)


VISION = manifest().plan.engine.vision
assert VISION is not None
WANTED = ExpectedFeatures.of(FACTS, VISION, np.float16)
ROWS, HIDDEN = VISION.features_per_image, FACTS.text.hidden_size
IDENTITY = "a" * 64
PIXELS = {"pixel_values": np.zeros((1, 1, 3, 28, 28), np.float16)}


def _named(identity: str) -> Tensors:
    return {OWN_IDENTITY: np.array([[identity.encode()]], dtype=np.object_)}


def _features(**changes: object) -> Tensors:
    tensors: dict[str, object] = {
        "OUT_PROMPT_EMBEDDING_TABLE": np.ones((1, ROWS, HIDDEN), np.float16),
        "OUT_PROMPT_VOCAB_SIZE": np.array([[ROWS]], np.int32),
        **_named(IDENTITY),
        **changes,
    }
    return {name: np.asarray(value) for name, value in tensors.items() if value is not None}


def _client(
    *addresses: str, seconds: float = SECONDS, wanted: ExpectedFeatures = WANTED
) -> EncoderClient:
    return EncoderClient(
        lambda: addresses, identity=IDENTITY, expected_features=wanted, timeout_seconds=seconds
    )


def _refused(client: EncoderClient) -> tuple[FallbackReason, str]:
    with pytest.raises(EncoderError) as refused:
        client.encode(PIXELS)
    return refused.value.why, str(refused.value)


def test_features_are_taken() -> None:
    with scripted_encoder(_features) as (address, _):
        found = _client(address).encode(PIXELS)
    assert {"OUT_PROMPT_EMBEDDING_TABLE", "OUT_PROMPT_VOCAB_SIZE"} == found.keys()
    assert found["OUT_PROMPT_EMBEDDING_TABLE"].tolist() == np.ones((1, ROWS, HIDDEN)).tolist()


TABLE = "OUT_PROMPT_EMBEDDING_TABLE"
HOLED = np.full((1, ROWS, HIDDEN), np.nan, np.float16)


@cases(
    "answer why reported",
    {
        "other engine": (_features(**_named("b" * 64)), FallbackReason.MISMATCH, "bbbb"),
        "no name": (_features(**{OWN_IDENTITY: None}), FallbackReason.MISMATCH, "none"),
        "a tensor is missing": (_features(**{TABLE: None}), FallbackReason.INVALID, "got tensors"),
        "dtype": (
            _features(**{TABLE: np.ones((1, ROWS, HIDDEN), np.float32)}),
            FallbackReason.INVALID,
            "got float32, expected float16",
        ),
        "width": (
            _features(**{TABLE: np.ones((1, ROWS, 2 * HIDDEN), np.float16)}),
            FallbackReason.INVALID,
            "expected [1, rows, 32]",
        ),
        "dimensions": (
            _features(**{TABLE: np.ones((ROWS, HIDDEN), np.float16)}),
            FallbackReason.INVALID,
            "got shape [4, 32]",
        ),
        "rows": (
            _features(
                **{
                    TABLE: np.ones((1, 1, HIDDEN), np.float16),
                    "OUT_PROMPT_VOCAB_SIZE": np.array([[1]], np.int32),
                }
            ),
            FallbackReason.INVALID,
            "got 1 rows for 1 images, not 4",
        ),
        "length": (
            _features(OUT_PROMPT_VOCAB_SIZE=np.array([[9]], np.int32)),
            FallbackReason.INVALID,
            "for 4 rows",
        ),
        "no numbers": (_features(**{TABLE: HOLED}), FallbackReason.INVALID, "NaN"),
    },
)
def test_others_are_refused(answer: Tensors, why: FallbackReason, reported: str) -> None:
    with scripted_encoder(lambda: answer) as (address, _):
        found, text = _refused(_client(address))
    assert (why, True) == (found, reported in text), text


def test_tensors_of_another_length_than_their_shape() -> None:
    for datatype in ("BF16", "FP16"):
        short = replace(Sent.of(_features()[TABLE]), datatype=datatype, content=b"12")
        with scripted_encoder(lambda: {**_features(), TABLE: short}) as (address, _):  # noqa: B023
            why, text = _refused(_client(address))
        assert (why, "cannot be read" in text) == (FallbackReason.INVALID, True), text


@pytest.mark.parametrize("end", [1, 40, -1], ids=["first byte", "within a name", "last byte"])
def test_cut_messages_are_refused(end: int) -> None:
    complete: bytes = message_of(_features()).SerializeToString()
    with scripted_encoder(lambda: complete[:end]) as (address, _):
        why, text = _refused(_client(address))
    assert (why, "cannot be read" in text) == (FallbackReason.INVALID, True), text


def test_an_encoder_that_ends_within_its_answer() -> None:
    with scripted_encoder(_large) as (address, servicer), cut_relay(address, 30_000) as relayed:
        assert _refused(_large_client(relayed))[0] is FallbackReason.UNAVAILABLE
        assert servicer.requested == 1
        found = _large_client(address).encode(PIXELS)
    assert found[TABLE].shape == (1, 1000, HIDDEN)


def _large() -> Tensors:
    rows = np.ones((1, 1000, HIDDEN), np.float16)
    return _features(OUT_PROMPT_EMBEDDING_TABLE=rows, OUT_PROMPT_VOCAB_SIZE=[[1000]])


def _large_client(address: str) -> EncoderClient:
    return _client(address, wanted=replace(WANTED, rows_per_image=None))


def _bits(pattern: int) -> Sent:
    bits = np.full((1, ROWS, HIDDEN), 0x3F80, np.uint16)
    bits[0, -1, -1] = pattern
    return Sent("BF16", bits.shape, bits.tobytes())


@pytest.mark.parametrize("pattern", [0x7F80, 0xFF80, 0x7FC0, 0xFF81], ids=hex)
def test_bits_that_are_no_numbers(pattern: int) -> None:
    wanted = replace(WANTED, dtype=np.dtype(np.float32))
    with scripted_encoder(lambda: {**_features(), TABLE: _bits(pattern)}) as (address, _):
        client = _client(address, wanted=wanted)
        why, text = _refused(client)
    assert (why, "NaN" in text) == (FallbackReason.INVALID, True), text


def test_bfloat16_for_an_engine_of_float16() -> None:
    with scripted_encoder(lambda: {**_features(), TABLE: _bits(0)}) as (address, _):
        why, text = _refused(_client(address))
    assert (why, "bfloat16" in text) == (FallbackReason.INVALID, True), text


def test_values_of_bfloat16_are_the_upper_halves_of_float32() -> None:
    """An encoder sends them where the engine has that type; their bits come as they are."""
    table = np.linspace(-3, 3, ROWS * HIDDEN, dtype=np.float32).reshape(1, ROWS, HIDDEN)
    table = (table.view(np.uint32) & 0xFFFF0000).view(np.float32)
    bits = (table.view(np.uint32) >> 16).astype(np.uint16)
    sent = Sent("BF16", table.shape, bits.tobytes())
    wanted = ExpectedFeatures.of(FACTS, VISION, np.float32)
    with scripted_encoder(lambda: {**_features(), TABLE: sent}) as (address, _):
        client = _client(address, wanted=wanted)
        found = client.encode(PIXELS)
    assert found[TABLE].dtype == BFLOAT16_BITS
    np.testing.assert_array_equal(of_bfloat16(found[TABLE]), table)


def test_two_threads_meet_encoders_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each closes channels, of which the other has one in its hands."""
    with scripted_encoder(_features) as (address, _):
        client, close = _client(address), EncoderChannel.close
        client._channels |= {name: EncoderChannel(name) for name in ("[::1]:1", "[::1]:2")}

        def beside_another(channel: EncoderChannel) -> None:
            monkeypatch.setattr(EncoderChannel, "close", close)
            client._channel("[::1]:3")
            close(channel)

        monkeypatch.setattr(EncoderChannel, "close", beside_another)
        client.encode(PIXELS)
        client._channel(address).close()
        assert _refused(client)[0] is FallbackReason.UNAVAILABLE


def test_the_next_encoder_is_queried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_SECONDS", 600.0)
    monkeypatch.setattr(client_module, "LONGEST_SECONDS", 600.0)
    bad = _features(**{TABLE: HOLED})
    with (
        scripted_encoder(lambda: bad) as (strange, requested),
        scripted_encoder(_features) as (right, _),
    ):
        client = _client(strange, right)
        number = 0
        while not requested.requested:  # which images go there first depends on both ports
            assert number < 256, "each goes there first with probability 1/2"
            client.encode(_image(number))
            number += 1
        for later in range(number, number + 8):
            client.encode(_image(later))
    assert requested.requested == 1


def _image(number: int) -> Tensors:
    return {"pixel_values": np.full((1, 1, 3, 28, 28), number, np.float16)}


def _fail() -> Tensors:
    raise RuntimeError("broken")


def test_an_encoder_that_hangs() -> None:
    over = threading.Event()

    def hang() -> Tensors:
        over.wait(SECONDS)
        return _features()

    with scripted_encoder(hang) as (address, _):
        try:
            assert _refused(_client(address, seconds=1))[0] is FallbackReason.TIMEOUT
        finally:
            over.set()


def test_an_encoder_that_fails() -> None:
    """An error inside the encoder is no time-out."""
    with scripted_encoder(_fail) as (address, _):
        assert _refused(_client(address))[0] is FallbackReason.FAILED


def test_an_absent_server() -> None:
    client = _client("127.0.0.1:1")
    assert [_refused(client)[0] for _ in range(2)] == [
        FallbackReason.UNAVAILABLE,
        FallbackReason.ABSENT,
    ]
    assert _refused(_client())[0] is FallbackReason.ABSENT


def _with(**digests: str) -> EngineManifest:
    files = [
        EngineFile(path=path.replace("__", "/"), size=1, sha256=digest * 64)
        for path, digest in digests.items()
    ]
    return manifest().model_copy(update={"files": files, "created": datetime.now(UTC)})


def test_engines_are_known_by_their_vision() -> None:
    one = vision_identity(_with(vision__model="1", llm__weights="1"))
    assert one == vision_identity(_with(vision__model="1", llm__weights="2"))
    assert one != vision_identity(_with(vision__model="2", llm__weights="1"))
