"""tensorrt_llm as far as Triton's model for the LLM API calls it: names and signatures of 1.2.1.

A name or an argument that upstream lacks is an error; answers name the sizes of the images. Source:
llmapi/{llm,llm_args,llm_utils}.py, sampling_params.py, inputs/*.py, serve/openai_server.py.
"""

import asyncio
import base64
import io
import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import urlparse

import transformers
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "standin"))

from arguments import VERSION
from chat import Server
from placeholders import MARKS
from serve import check_options

KNOWN = json.loads(Path(__file__).with_name("signatures.json").read_text())
"""What upstream's have: of LLM the fields beside those of a file of trtllm-serve."""


def check(what: str, given: dict[str, Any]) -> None:
    if foreign := set(given) - set(KNOWN[what]):
        raise TypeError(f"{what}() got an unexpected keyword argument {min(foreign)!r}")


class SamplingParams(SimpleNamespace):
    def __init__(self, **given: Any) -> None:
        check("SamplingParams", given)
        super().__init__(**KNOWN["SamplingParams"] | given)
        if self.best_of is not None and self.best_of < self.n:
            raise ValueError(f"best_of ({self.best_of}) cannot be less than n ({self.n})")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")
        assert all(isinstance(one, str) for one in self.stop or ())


class LLM:
    """One checkpoint; `arguments` are those of TorchLlmArgs."""

    def __init__(self, model: str, **arguments: Any) -> None:
        assert arguments.pop("backend", "pytorch") == "pytorch"
        assert os.environ.get("TLLM_SPAWN_PROXY_PROCESS"), "MPI_ERR_SPAWN: trtllm-llmapi-launch"
        check_options({k: v for k, v in arguments.items() if k not in KNOWN["LLM"]})
        self.args = SimpleNamespace(model=model, trust_remote_code=False, **arguments)
        made: Any = transformers.AutoTokenizer.from_pretrained(model)
        self.tokenizer = SimpleNamespace(tokenizer=made)

    def generate_async(
        self, inputs: Any, sampling_params: SamplingParams | None = None, **given: Any
    ) -> "RequestOutput":
        check("generate_async", given)
        assert not any(given.values()), "of these nothing acts here"
        inputs = prompt_inputs(inputs)
        assert set(inputs) <= {"prompt", "multi_modal_data", "mm_processor_kwargs"}
        images = (inputs.get("multi_modal_data") or {}).get("image", [])
        marks = inputs["prompt"].count(MARKS["qwen2_vl"])
        if marks != len(images):
            raise ValueError(f"{marks} placeholders stand for {len(images)} images")
        return RequestOutput(inputs["prompt"], images, sampling_params or SamplingParams())

    def shutdown(self) -> None:
        print("[TRT-LLM] [I] LLM is shut down", flush=True)


class RequestOutput:
    """One request, which is awaited."""

    def __init__(self, prompt: str, images: list[Any], sampling: SamplingParams) -> None:
        words = ["An", "answer", "about", *(f"{one.width}x{one.height}" for one in images)]
        stops = [one for one in sampling.stop or () if one in words]
        kept = words[: words.index(stops[0]) if stops else sampling.max_tokens]
        made = SimpleNamespace(
            text=("" if sampling.exclude_input_from_output else prompt) + " ".join(kept),
            finish_reason="stop" if stops or kept == words else "length",
            stop_reason=stops[0] if stops else None,
            cumulative_logprob=None if sampling.logprobs is None else -0.5 * len(kept),
            request_perf_metrics=_metrics() if sampling.return_perf_metrics else None,
        )
        self.outputs = [made]

    def abort(self) -> None:
        print("[TRT-LLM] [I] a request is aborted", flush=True)

    async def aresult(self) -> "RequestOutput":
        return self


def _metrics() -> SimpleNamespace:
    blocks = ("reused", "missed", "new_allocated", "total_allocated")
    kept = {f"num_{one}_blocks": number for number, one in enumerate(blocks)}
    times = ("arrival", "first_scheduled", "first_token", "last_token")
    drafts = ("acceptance_rate", "total_accepted_draft_tokens", "total_draft_tokens")
    return SimpleNamespace(
        kv_cache_metrics=SimpleNamespace(kv_cache_hit_rate=0.5, **kept),
        timing_metrics=SimpleNamespace(**{f"{one}_time": timedelta(seconds=1) for one in times}),
        speculative_decoding=SimpleNamespace(**dict.fromkeys(drafts, 0)),
    )


def prompt_inputs(inputs: Any) -> dict[str, Any]:
    return {"prompt": inputs} if isinstance(inputs, str) else inputs


def update_llm_args_with_extra_dict(llm_args: Any, llm_args_dict: Any) -> dict[str, Any]:
    return {**llm_args, **llm_args_dict}


def load_pretrained_config(folder: str, trust_remote_code: bool = False, **_kwargs: Any) -> Any:
    return transformers.AutoConfig.from_pretrained(folder)


class MultimodalDataTracker:
    def __init__(self, model_type: str, multimodal_server_config: Any = None) -> None:
        self._mark, self._data = MARKS[model_type], list[Any]()

    def add_data(self, media_type: str, data: Any, *, is_embedding: bool = False) -> None:
        assert media_type == "image"
        self._data.append(data)

    def placeholder_counts(self) -> dict[str, int]:
        return {self._mark: len(self._data)}

    async def retrieve_all_async(self) -> tuple[dict[str, Any], None]:
        return {"image": await asyncio.gather(*self._data)}, None


def add_multimodal_placeholders(_type: str, text: str, counts: dict[str, int]) -> str:
    return "\n".join([*(one for one, count in counts.items() for _ in range(count)), text])


async def async_load_image(image: str, format: str = "pt", device: str = "cpu") -> Any:
    assert urlparse(image).scheme == "data", "this stand-in downloads nothing"
    return Image.open(io.BytesIO(base64.b64decode(image.partition(",")[2]))).convert("RGB")


def apply_chat_template(**given: Any) -> str:
    check("apply_chat_template", given)
    conversation, counts = given["conversation"], given["mm_placeholder_counts"]
    assert (len(counts), given["add_generation_prompt"]) == (len(conversation), True)
    messages = [{"role": one["role"], "content": one["content"]} for one in conversation]
    return str(given["tokenizer"].tokenizer.apply_chat_template(messages, tokenize=False))


class OpenAIServer:
    def __init__(
        self,
        generator: LLM,
        model: str,
        tool_parser: str | None,
        server_role: Any,
        metadata_server_cfg: Any,
        disagg_cluster_config: Any = None,
        multimodal_server_config: Any = None,
        chat_template: str | None = None,
    ) -> None:
        assert (tool_parser, server_role, metadata_server_cfg) == (None, None, None)
        self._options, self._folder = vars(generator.args), Path(model)

    async def __call__(self, host: str, port: int, sockets: Any = None) -> None:
        server = Server((host, port), self._folder, VERSION, self._options)
        try:
            await asyncio.to_thread(server.serve_forever)
        finally:
            server.leave()


UTILS = (MultimodalDataTracker, add_multimodal_placeholders, apply_chat_template, async_load_image)
for module, parts in {
    "llmapi": (),
    "llmapi.llm_utils": (update_llm_args_with_extra_dict,),
    "_torch": (),
    "_torch.pyexecutor": (),
    "_torch.pyexecutor.config_utils": (load_pretrained_config,),
    "inputs": (prompt_inputs,),
    "inputs.utils": UTILS,
    "serve": (OpenAIServer,),
}.items():
    made = sys.modules[f"{__name__}.{module}"] = ModuleType(module)
    vars(made).update({one.__name__: one for one in parts}, ConversationMessage=dict)
    parent, _, last = f"{__name__}.{module}".rpartition(".")
    setattr(sys.modules[parent], last, made)
