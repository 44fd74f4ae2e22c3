"""The model that clients reach where the image's own takes no images: tensors as upstream's has.

Names, defaults and calls are those of triton_backend/all_models/llmapi with the `image_url` of
NVIDIA's guide for Qwen2.5-VL. Text alone is the prompt as it is; beside images it is a question,
which the checkpoint's chat template writes. Not decoupled: one response a request.
"""

import asyncio
import threading
from collections.abc import Sequence
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from mm_runtime.repository.configs.llmapi import MEASURED
from mm_runtime.serving.errors import EngineStoppedError, RequestError
from mm_runtime.serving.metrics.families import Executing, end_metrics
from mm_runtime.serving.send.deferred_response import DeferredResponse
from mm_runtime.serving.tensors import Tensors, scalar, texts
from mm_runtime.serving.triton import ModelSettings, Outputs

PREFIX = "sampling_param_"
DEFAULTS = {"exclude_input_from_output": False}
"""Upstream's model echoes the prompt unless a request excludes it."""

CANCEL_SECONDS = 0.1


class TritonPythonModel:
    """`tensorrt_llm.LLM` behind the tensors of NVIDIA's guide."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the LLM that model.yaml describes."""
        self._settings, self._executing = ModelSettings(args), Executing("tensorrt_llm")
        file = Path(args["model_repository"]) / args["model_version"] / "model.yaml"
        self._arguments = yaml.safe_load(file.read_text())
        del self._arguments["triton_config"]
        self._init_engine()
        self._init_multimodal()

    def _init_engine(self) -> None:
        from tensorrt_llm import LLM  # noqa: PLC0415 (loads CUDA)
        from tensorrt_llm.llmapi.llm_utils import (  # noqa: PLC0415
            update_llm_args_with_extra_dict,
        )

        self._llm_engine = LLM(**update_llm_args_with_extra_dict({}, self._arguments))
        self._event_loop = asyncio.new_event_loop()
        threading.Thread(target=self._event_loop.run_forever, daemon=True).start()

    def _init_multimodal(self) -> None:
        from tensorrt_llm._torch.pyexecutor import config_utils  # noqa: PLC0415
        from transformers import AutoProcessor  # noqa: PLC0415

        folder, load = self._arguments["model"], AutoProcessor.from_pretrained
        trusted = {"trust_remote_code": self._arguments.get("trust_remote_code", False)}
        self._processor = load(folder, **trusted)  # type: ignore[no-untyped-call]
        self._kind = type(config_utils.load_pretrained_config(folder, **trusted)).model_type

    def execute(self, requests: Sequence[Any]) -> None:
        """Begin each request; its response is sent when the LLM has finished it."""
        for request in requests:
            response = DeferredResponse(request, self._executing, self._settings.output_types)
            work = self._answer(request, self._settings.kept_inputs(request), response)
            asyncio.run_coroutine_threadsafe(work, self._event_loop)

    async def _answer(self, request: Any, inputs: Tensors, response: DeferredResponse) -> None:
        try:
            response.send(self._outputs(inputs, await self._generated(request, inputs)))
        except Exception as error:  # noqa: BLE001 (the client gets it, and the server lives on)
            response.send(RequestError(str(error)) if isinstance(error, ValueError) else error)

    async def _generated(self, request: Any, inputs: Tensors) -> Any:
        """Return the finished request; one whose client has left is aborted."""
        from tensorrt_llm import SamplingParams  # noqa: PLC0415

        if scalar(inputs, "streaming"):
            raise RequestError("streaming: this model sends one response; leave it out")
        prompt: Any = next(iter(texts(inputs, "text_input")))
        if urls := texts(inputs, "image_url"):
            prompt = await self._build_multimodal_prompt(prompt, urls)
        sampling = SamplingParams(**_sampling(inputs))
        result = self._llm_engine.generate_async(prompt, sampling_params=sampling)
        task = asyncio.ensure_future(result.aresult())
        while not (await asyncio.wait({task}, timeout=CANCEL_SECONDS))[0]:
            if request.is_cancelled():
                result.abort()
                raise EngineStoppedError("the request was cancelled")
        return task.result()

    async def _build_multimodal_prompt(self, text: str, media: Sequence[str]) -> Any:
        """Return the prompt of a question about images, and the images."""
        from tensorrt_llm.inputs import prompt_inputs  # noqa: PLC0415
        from tensorrt_llm.inputs import utils as upstream  # noqa: PLC0415

        tracker = upstream.MultimodalDataTracker(self._kind)
        for url in media:
            tracker.add_data("image", upstream.async_load_image(url))
        counts = tracker.placeholder_counts()
        content = upstream.add_multimodal_placeholders(self._kind, text, counts)
        written = await asyncio.to_thread(
            upstream.apply_chat_template,
            model_type=self._kind,
            tokenizer=self._llm_engine.tokenizer,
            processor=self._processor,
            conversation=[upstream.ConversationMessage(role="user", content=content, media=[])],
            add_generation_prompt=True,
            mm_placeholder_counts=[counts],
        )
        images, _embeddings = await tracker.retrieve_all_async()
        return prompt_inputs(written) | {"multi_modal_data": images}

    def _outputs(self, inputs: Tensors, result: Any) -> Outputs:
        made = result.outputs
        found: Outputs = {"text_output": _strings(one.text for one in made)}
        for name in ("finish_reason", "stop_reason"):
            if scalar(inputs, f"return_{name}"):
                found[name] = _strings(getattr(one, name) for one in made)
        if scalar(inputs, "return_cumulative_logprob"):
            sums = [one.cumulative_logprob for one in made]
            found["cumulative_logprob"] = np.array(sums, np.float32)
        measured = getattr(made[0], "request_perf_metrics", None)
        for name, (path, _) in MEASURED.items() if measured is not None else ():
            value = attrgetter(path)(measured)
            if isinstance(value, timedelta):  # of a steady clock
                value = value // timedelta(microseconds=1) * 1000
            found[name] = np.array([value], self._settings.output_dtype(name))
        return found

    def finalize(self) -> None:
        """End the LLM; the server has let running requests finish before."""
        self._llm_engine.shutdown()
        self._event_loop.call_soon_threadsafe(self._event_loop.stop)
        end_metrics()


def _sampling(inputs: Tensors) -> dict[str, Any]:
    names = [one for one in inputs if one.startswith(PREFIX) and one != f"{PREFIX}stop"]
    given = {name.removeprefix(PREFIX): scalar(inputs, name) for name in names}
    if stop := texts(inputs, f"{PREFIX}stop"):
        given["stop"] = stop
    if scalar(inputs, "return_cumulative_logprob"):
        given["logprobs"] = 1  # no sum is kept without
    return DEFAULTS | given


def _strings(values: Any) -> Any:
    return np.array([str(one).encode() for one in values], np.object_)
