"""A server and a gateway of one family, beside the same engine in the test's process."""

import base64
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openai import OpenAI

from mm_runtime.reference_engine.encoder_decoder import KINDS as TEXT_KINDS
from support.build_plans import serving_plan
from support.ensemble import Ensemble
from support.families import texts
from support.families.case import Case
from support.families.expected import ANSWER
from support.families.images import CASES
from support.families.pipeline import Pipeline, build
from support.families.shared import SharedFamily, shared_family
from support.images import data_url, encode
from support.real_gateway import RealGateway, run_pair
from support.tiny_llava import BuiltEngine

FRAMES = 3
"""Of a video, at the most."""

MAX_VIDEO_BYTES = 4 << 20
"""Room for a video of too many frames."""

TEXT_FAMILIES = sorted(set(TEXT_KINDS) - {"whisper"})


@dataclass(frozen=True)
class Family:
    """A server and a gateway of one family, its checkpoint, the same engine in this process."""

    name: str
    checkpoint: Path
    pair: RealGateway
    ensemble: Ensemble
    openai: OpenAI
    pipeline: Pipeline

    @property
    def case(self) -> Case:
        return CASES[self.name]

    def prompt(self, given: list[Any]) -> str:
        return self.case.prompt.format(images=self.case.mark * len(given))

    def chat(self, *content: dict[str, object], **options: Any) -> Any:
        return self.openai.chat.completions.create(
            model=self.pair.model,
            messages=[{"role": "user", "content": list(content)}],
            temperature=0,
            max_tokens=ANSWER,
            **options,
        )

    def expected(self, given: list[Any]) -> tuple[str, int]:
        """Return answer and prompt tokens of this process for the originals of images."""
        prompt = self.prompt(given)
        if not given and not prompt.startswith(("<|im_start|>", "<s>")):
            prompt = f"<s>{prompt}"
        urls = [data_url(encode(one)).encode() for one in given]
        tensors = {"IMAGE_URL": np.array([urls], dtype=np.object_)} if urls else {}
        tokens = len(self.pipeline.prepare(prompt, **tensors)["INPUT_ID"][0])
        codec = self.pipeline.preprocessor.codec
        return codec.decode(self.pipeline.query(prompt, **tensors)), tokens


def _built(family: str, factory: pytest.TempPathFactory, folder: Path) -> SharedFamily:
    if family not in TEXT_FAMILIES:
        return shared_family(factory, family)
    checkpoint = texts.write(family, folder / "checkpoint")
    return SharedFamily(checkpoint, build(checkpoint, folder / "store"))


@contextmanager
def serve(
    family: str, factory: pytest.TempPathFactory, *, frames: int = FRAMES
) -> Iterator[Family]:
    """Run a family until the block ends; videos have at most so many frames together."""
    folder = factory.mktemp("family")
    with serve_built(family, _built(family, factory, folder), folder, frames=frames) as served:
        yield served


@contextmanager
def serve_built(
    family: str, built: SharedFamily, folder: Path, *, frames: int = FRAMES
) -> Iterator[Family]:
    """Run an engine of a family until the block ends; its files of this run go into a folder."""
    directory = built.engine
    serving = folder / "plan.json"
    plan = serving_plan(directory.manifest.fingerprint)
    limits = plan.gateway.model_copy(
        update={"max_video_frames": frames, "max_image_bytes": MAX_VIDEO_BYTES}
    )
    serving.write_text(plan.model_copy(update={"gateway": limits}).to_json())
    pipeline = Pipeline.load(directory)
    with (
        run_pair(BuiltEngine(directory.root, serving), folder) as pair,
        Ensemble(pair.triton_grpc) as ensemble,
        OpenAI(base_url=f"{pair.url}/v1", api_key="none", max_retries=0, timeout=60) as openai,
    ):
        yield Family(family, built.checkpoint, pair, ensemble, openai, pipeline)
    pipeline.loaded.engine.stop()


KEPT = 2
"""Servers that run side by side: those of the families of each run."""


class Servers:
    """Families that run, those used last; tests of one family need not follow each other."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._running: dict[str, tuple[ExitStack, Family]] = {}

    def of(self, name: str) -> Family:
        if name not in self._running:
            while len(self._running) >= KEPT:
                self._end(next(iter(self._running)))
            stack = ExitStack()
            family = stack.enter_context(serve(name, self._factory))
            self._running[name] = (stack, family)
        self._running[name] = self._running.pop(name)
        return self._running[name][1]

    def close(self) -> None:
        while self._running:
            self._end(next(iter(self._running)))

    def _end(self, name: str) -> None:
        self._running.pop(name)[0].close()


def image_part(image: Any) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": data_url(encode(image))}}


def video_part(content: bytes, kind: str = "mp4", **options: object) -> dict[str, object]:
    url = f"data:video/{kind};base64,{base64.b64encode(content).decode()}"
    return {"type": "video_url", "video_url": {"url": url, **options}}
