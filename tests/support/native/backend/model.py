"""Stands in for TensorRT-LLM's Triton backend: its interface, over the Reference engine.

A Python-based backend: tritonserver loads it for every model whose backend is `tensorrtllm`. What
an engine's file holds is the folder of a Reference engine of the same checkpoint.
"""

import json
import secrets
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton_python_backend_utils as pb_utils

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from checks import (  # type: ignore[import-not-found]  # noqa: E402
    ROTATED,
    RefusedError,
    RequestChecks,
    check_config,
    demand,
    read_adapters,
    read_engine,
)
from guided import Guided, read_table  # type: ignore[import-not-found]  # noqa: E402

from mm_runtime.reference_engine.load import load_engine  # noqa: E402
from mm_runtime.serving.directory import EngineDirectory  # noqa: E402
from mm_runtime.serving.generate.generation import read_request  # noqa: E402
from mm_runtime.serving.generate.request import Piece  # noqa: E402

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class Sink:
    """Sends what the C++ backend sends: new tokens of each step, and nothing about the stream."""

    def __init__(
        self,
        request: Any,
        *,
        streaming: bool,
        wanted: frozenset[str],
        normalized: bool,
        beams: int = 1,
    ) -> None:
        """Take Triton's request; `normalized`: log probabilities are of the tokens of top_k."""
        self._sender = request.get_response_sender()
        self._normalized, self._beams = normalized, beams
        self._streaming, self._wanted = streaming, wanted
        self._kept: list[Piece] = []
        self.stopped = False

    def send(self, piece: Piece) -> None:
        last = piece.finish is not None
        if self._streaming and self._beams == 1:
            self._sender.send(self._response(piece), flags=FINAL if last else 0)
            return
        self._kept.append(piece)
        if last:
            ids = tuple(token for one in self._kept for token in one.ids)
            values = tuple(value for one in self._kept for value in one.log_probs)
            joined = Piece(ids, piece.finish, values, piece.cumulative_log_prob)
            self._sender.send(self._response(joined), flags=FINAL)

    def fail(self, error: Exception) -> None:
        refused = pb_utils.TritonError(str(error), pb_utils.TritonError.INTERNAL)
        self._sender.send(pb_utils.InferenceResponse(error=refused), flags=FINAL)

    def cancelled(self) -> None:
        self._sender.send(flags=FINAL)

    def is_cancelled(self) -> bool:
        return self.stopped or bool(self._sender.is_cancelled())

    def _response(self, piece: Piece) -> Any:
        # Each beam after the first is a token shorter, and that much less likely.
        beams = [piece.ids[: len(piece.ids) - at] for at in range(self._beams)]
        ids = np.full((1, len(beams), len(piece.ids)), -1, dtype=np.int32)
        for row, tokens in enumerate(beams):
            ids[0, row, : len(tokens)] = tokens
        probabilities = np.zeros((1, len(beams), len(piece.ids)), dtype=np.float32)
        kept = () if self._normalized else piece.log_probs
        probabilities[0, :, : len(kept)] = kept
        sums = [piece.cumulative_log_prob - at for at in range(self._beams)]
        found = {
            "output_ids": ids,
            "sequence_length": np.array([[len(one) for one in beams]], dtype=np.int32),
            "cum_log_probs": np.array([sums], dtype=np.float32),
            "output_log_probs": probabilities,
            "context_logits": np.zeros((1, 1, 1), np.float32),
            "generation_logits": np.zeros((1, 1, 1, 1), np.float32),
            "batch_index": np.zeros((1, 1), np.int32),
            "sequence_index": np.zeros((1, 1), np.int32),
        }
        tensors = [
            pb_utils.Tensor(name, one) for name, one in found.items() if name in self._wanted
        ]
        return pb_utils.InferenceResponse(output_tensors=tensors)


REUSE_BYTES = 64 << 20
"""Of blocks that are kept: some hundred prompts of the tiny models."""


class TritonPythonModel:
    """One engine."""

    def initialize(self, args: dict[str, str]) -> None:
        """Check everything, then load the Reference engine that the engine's file names."""
        config = json.loads(args["model_config"])
        given = {name: one["string_value"] for name, one in config["parameters"].items()}
        folder = Path(given.get("gpt_model_path", ""))
        engine = read_engine(folder)
        templates = json.loads((HERE / "templates.json").read_text())
        installed = (HERE / "VERSION").read_text()
        version = engine["version"]
        demand(version == installed, f"the engine is of {version}, and this backend {installed}")
        check_config(config, templates[version], engine)
        table = read_table(given)
        if given["encoder_model_path"]:
            read_engine(Path(given["encoder_model_path"]))
        self._inputs = [one["name"] for one in config["input"]]
        self._outputs = frozenset(one["name"] for one in config["output"])
        pretrained = engine["pretrained_config"]
        rotations = 0
        if pretrained["architecture"] in ROTATED:
            rotations = pretrained["max_position_embeddings"] * pretrained["head_size"]
        reuses = given["enable_kv_cache_reuse"] == "true"
        self._checks = RequestChecks(engine, rotations, reuses, read_adapters(given, engine))
        queued = config.get("dynamic_batching", {}).get("default_queue_policy", {})
        reference = json.loads((folder / "rank0.engine").read_text())["reference"]
        directory = EngineDirectory.open(Path(reference))
        self._loaded = load_engine(
            directory,
            max_queue_size=int(queued.get("max_queue_size", 0)),
            cancellation_check_seconds=0.05,
            reuse_bytes=REUSE_BYTES if reuses else 0,
        )
        self._guided = Guided(table, directory.tokenizer, self._loaded.vocabulary_size)
        self._beams = int(given["max_beam_width"])
        self._normalizes = given["normalize_log_probs"].lower() == "true"
        self._sinks: dict[str, Sink] = {}
        self._loaded.engine.start()

    def execute(self, requests: Sequence[Any]) -> None:
        for request in requests:
            inputs = self._read(request)
            sink = Sink(
                request,
                streaming=bool(_one(inputs, "streaming")),
                wanted=self._outputs,
                # log P(i | i is in top-k): of the only one it is 0 (samplingTopKKernels.h).
                normalized=self._normalizes and _one(inputs, "runtime_top_k") == 1,
                beams=_one(inputs, "beam_width") or 1,
            )
            try:
                if _one(inputs, "stop"):
                    stopped = self._sinks.get(request.request_id())
                    demand(request.request_id(), "a request to stop needs the id of another one")
                    if stopped is not None:
                        stopped.stopped = True
                    sink.cancelled()
                    continue
                self._checks.check(inputs)
                skipped = _one(inputs, "skip_cross_attn_blocks")
                for name in ("encoder_input_features", "cross_attention_mask") if skipped else ():
                    del inputs[name]
                guide = self._guided.take(inputs)
                beams = _one(inputs, "beam_width") or 1
                demand(1 <= beams <= self._beams, f"beam_width is {beams}, above {self._beams}")
                inputs.pop("beam_width", None)
                requested = read_request(
                    inputs,
                    end_ids=frozenset({_one(inputs, "end_id")} - {None}),
                    vocabulary_size=self._loaded.vocabulary_size,
                    fresh_seed=secrets.randbits(63),
                    encoder_decoder=self._loaded.encoder_decoder,
                    adapters=self._loaded.adapters,
                )
                if request.request_id():
                    self._sinks[request.request_id()] = sink
                self._loaded.engine.submit(replace(requested, guide=guide), sink)
            except (RefusedError, Exception) as error:  # noqa: BLE001 (as the backend: the server lives on)
                sink.fail(error)

    def finalize(self) -> None:
        self._loaded.engine.stop()

    def _read(self, request: Any) -> dict[str, Any]:
        found = {name: pb_utils.get_input_tensor_by_name(request, name) for name in self._inputs}
        return {name: _array(one) for name, one in found.items() if one is not None}


def _array(tensor: Any) -> np.ndarray[Any, Any]:
    try:
        return np.array(tensor.as_numpy())
    except pb_utils.TritonModelException:
        held = torch.utils.dlpack.from_dlpack(tensor.to_dlpack())
        return np.array(held.float().numpy())


def _one(inputs: dict[str, Any], name: str) -> Any:
    return inputs[name].reshape(-1)[0].item() if name in inputs else None
