"""Archives behind HTTPS: FairSeq's checkpoint answers as transformers does; hostile ones do not."""

import argparse
import fractions
import hashlib
import io
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from mm_runtime.engine_build.commands.fairseq import convert
from mm_runtime.errors import PermanentError
from mm_runtime.inspect.checkpoint import InspectOptions
from mm_runtime.inspect.source import inspect_source
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.encoder_decoder import EncoderDecoderModel
from mm_runtime.serving.generate.request import Request
from mm_runtime.serving.prompts.tokens import TextCodec
from mm_runtime.sources.address import parse_address
from mm_runtime.sources.origin import opened
from support.cases import cases
from support.certificates import signed_by_itself
from support.collecting_sink import answers_of
from support.engines import engine_starter
from support.http_servers import served_in_threads

HALVES = {"encoder": ("self_attn", "final"), "decoder": ("self_attn", "encoder_attn", "final")}
CODES = "#version: 0.2\nt h 9\nth e</w> 8\nr e 7\nre d</w> 6\nb l 5\nbl u 4\nblu e</w> 3\n"
WORDS = ("the", "red", "blue", *(f"{letter}@@" for letter in "abderu"), *"abderu")
"""`th` and `blu`, which are between merges, are in no dictionary."""
Serve = Callable[[str, bytes], str]
LIMITS: Any = {"dtype": "float32", "slots": 3, "max_length": 64}
ANSWER, END, SIZE, UNKNOWN = 12, 2, 4 + len(WORDS), 3


@pytest.fixture(scope="module")
def complete() -> Any:
    torch.manual_seed(1)
    sizes = {"layers": 2, "attention_heads": 4, "ffn_dim": 48}
    config = transformers.FSMTConfig(
        **{f"{half}_{name}": size for half, (name, size) in product(HALVES, sizes.items())},
        **dict.fromkeys(("src_vocab_size", "tgt_vocab_size"), SIZE),
        d_model=32,
        max_position_embeddings=128,
        init_std=0.5,
        tie_word_embeddings=True,
    )
    return transformers.FSMTForConditionalGeneration(config).eval()


def state_of(model: Any, *, old: bool) -> dict[str, Any]:
    """Return the weights under FairSeq's names, or those of its first releases."""
    named = ((k.removeprefix("model."), v) for k, v in model.state_dict().items())
    state = {name: one for name, one in named if "embed_positions" not in name}
    state |= {f"{half}.embed_positions._float_tensor": torch.zeros(1) for half in HALVES}
    state |= {f"{half}.version": torch.tensor([3.0]) for half in HALVES}
    if not old:
        return state
    del state["decoder.output_projection.weight"]
    for name in [name for name in state if ".q_proj." in name]:
        parts = [state.pop(name.replace("q_proj", f"{one}_proj")) for one in "qkv"]
        state[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
    for half, norms in HALVES.items():
        for at, norm in enumerate(norms):
            for name in [one for one in state if one.startswith(half) and f".{norm}_layer_" in one]:
                state[name.replace(f"{norm}_layer_norm", f"layer_norms.{at}")] = state.pop(name)
    return state


def published(folder: Path, complete: Any, *, old: bool = False, **changes: Any) -> Path:
    """Write a folder as FairSeq publishes it; `changes`: of what model.pt holds."""
    folder.mkdir()
    sizes = {"layers": 2, "attention_heads": 4, "ffn_embed_dim": 48, "embed_dim": 32}
    arguments = argparse.Namespace(
        **{f"{half}_{name}": size for half, (name, size) in product(HALVES, sizes.items())},
        source_lang="en",
        target_lang="fr",
        share_all_embeddings=True,
        max_source_positions=128,
    )
    written = {"args": arguments, "model": state_of(complete, old=old), "extra_state": None}
    torch.save(written | changes, folder / "model.pt", _use_new_zipfile_serialization=not old)
    words = "".join(f"{word} {99 - at}\n" for at, word in enumerate(WORDS))
    for name, text in {"dict.en.txt": words, "dict.fr.txt": words, "bpecodes": CODES}.items():
        (folder / name).write_text(text)
    return folder


def packed(kind: str, *members: tarfile.TarInfo | Path) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=f"w:{kind}") as archive:  # type: ignore[call-overload]
        for one in members:
            archive.add(one, one.name) if isinstance(one, Path) else archive.addfile(one)
    return file.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.size, found.linkname = kind, size, "/etc/passwd"
    return found


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    contents: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = contents.get(self.path)
            self.send_response(302 if content == b"moved" else 200 if content else 404)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

    certificate = signed_by_itself(tmp_path, "archives")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with served_in_threads(Handler, certificate=certificate) as url:

        def address(name: str, content: bytes) -> str:
            contents[f"/{name}"] = content
            return f"{url}/{name}#sha256={hashlib.sha256(content).hexdigest()}"

        yield address


@cases("old kind", {"fairseq": (False, "bz2"), "of-its-first-releases": (True, "gz")})
def test_fairseqs_checkpoint_answers_as_transformers(
    complete: Any, tmp_path: Path, serve: Serve, kind: str, *, old: bool
) -> None:
    folder = published(tmp_path / "wmt", complete, old=old)
    source = serve(f"wmt.tar.{kind}", packed(kind, folder))
    facts = inspect_source(source, InspectOptions(allow_pickle=True))
    with opened(parse_address(source), allow_pickle=True) as origin:
        assert origin.digest() == facts.source_digest
        for name in origin.sizes:
            origin.copy(name, tmp_path / name)
    codec = TextCodec(tmp_path)
    ids = {text: codec.encode_prompt(text) for text in ("the red blue", "bad  rude", "thb ж")}

    assert list(ids.values()) == [
        [4, 5, 6, END],
        [*(4 + WORDS.index(word) for word in ("b@@", "a@@", "d", "r@@", "u@@", "d@@", "e")), END],
        [UNKNOWN, 4 + WORDS.index("b"), UNKNOWN, END],
    ]
    assert codec.decode(ids["bad  rude"]) == "bad rude"
    read = transformers.FSMTForConditionalGeneration.from_pretrained(tmp_path).state_dict()
    torch.testing.assert_close(read, complete.state_dict(), rtol=0, atol=0)
    requests = [
        Request(tuple(one), ANSWER, frozenset({END}), decoder_ids=(END,)) for one in ids.values()
    ]
    expected = [_answer(complete, one) for one in ids.values()]
    assert len(set(map(tuple, expected))) == len(expected)
    model = EncoderDecoderModel(Checkpoint(folder=tmp_path, family="nmt", **LIMITS))
    with engine_starter(model)(max_batch_size=3, max_seq_len=64, max_num_tokens=4) as engine:
        assert expected == answers_of(engine, requests)


def _answer(complete: Any, ids: list[int]) -> list[int]:
    greedy = {"num_beams": 1, "do_sample": False, "forced_eos_token_id": None}
    found = complete.generate(torch.tensor([ids]), max_new_tokens=ANSWER, **greedy)[0].tolist()[1:]
    return found[: found.index(END)] if END in found else found


@cases(
    "content words",
    {
        "link": (packed("bz2", member("a", tarfile.SYMTYPE)), "'a' is no plain file"),
        "device": (packed("bz2", member("a", tarfile.BLKTYPE)), "'a' is no plain file"),
        "parent": (packed("bz2", member("x/../../a")), "'x/../../a' lies outside"),
        "absolute": (packed("bz2", member("/a")), "'/a' lies outside"),
        "bomb": (packed("bz2", member("a", size=2**40)), "1 of its files have 1099511627776 bytes"),
        "files": (packed("bz2", *map(member, map(str, range(1001)))), "1001 of its files have 0"),
        "header": (packed("bz2", member("a", tarfile.XHDTYPE, 2**32)), "has 4294967296 bytes"),
        "truncated": (packed("bz2", *map(member, map(str, range(99))))[:-40], "is damaged"),
        "absent": (b"", "the server answered 404"),
        "redirect-to-http": (b"moved", "is redirected to http://"),
    },
)
def test_a_hostile_archive_is_refused(serve: Serve, content: bytes, words: str) -> None:
    with pytest.raises(PermanentError, match=re.escape(words)):
        inspect_source(serve("a.tar.bz2", content), InspectOptions(allow_pickle=True))


def test_an_archive_is_the_one_that_its_digest_names(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is unpacked; and from a server that is not trusted none is fetched."""
    address = serve("a.tar.bz2", b"<html>")
    other = address[:-64] + "0" * 64
    with pytest.raises(PermanentError, match=f"and the source names {'0' * 64}"):
        inspect_source(other, InspectOptions())
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(PermanentError, match="certificate is not trusted"):
        inspect_source(address, InspectOptions())


def test_nothing_but_tensors_and_arguments_is_unpickled(
    complete: Any, tmp_path: Path, serve: Serve
) -> None:
    folder = published(tmp_path / "wmt", complete, extra_state=fractions.Fraction(1, 2))
    address = serve("wmt.tar.gz", packed("gz", folder))
    with pytest.raises(PermanentError, match=r"Set spec\.model\.allowPickle: true"):
        inspect_source(address, InspectOptions())
    with pytest.raises(PermanentError, match=r"more than tensors and arguments.*Fraction"):
        inspect_source(address, InspectOptions(allow_pickle=True))


FC, EMBEDDING = "encoder.layers.1.fc1.bias", "decoder.output_projection.weight"


@cases(
    "change words",
    {
        "weight-missing": ({FC: None}, f"model.{FC}"),
        "weight-left-over": (
            {"encoder.layer_norm.bias": torch.ones(32)},
            "encoder.layer_norm.bias",
        ),
        "other-shape": ({FC: torch.ones(7)}, f"model.{FC}"),
        "own-projection": ({EMBEDDING: torch.ones(SIZE, 32)}, "is not the decoder's embedding"),
        "two-dictionaries": ({"dict.fr.txt": "rot 1"}, "the dictionaries differ"),
        "other-dictionary": ({"dict.en.txt": "red"}, "'red' is not a new word"),
        "codes-of-2017": ({"bpecodes": "e </w>"}, "no merge as fastBPE"),
    },
)
def test_what_fsmt_cannot_hold_is_named(
    complete: Any, tmp_path: Path, change: Mapping[str, Any], words: str
) -> None:
    texts = {name: one for name, one in change.items() if isinstance(one, str)}
    changed = state_of(complete, old=False) | {k: v for k, v in change.items() if k not in texts}
    state = {name: one for name, one in changed.items() if one is not None}
    folder = published(tmp_path / "wmt", complete, model=state)
    for name, text in texts.items():
        (folder / name).write_text(text)
    with pytest.raises(PermanentError, match=words):
        convert(folder)
