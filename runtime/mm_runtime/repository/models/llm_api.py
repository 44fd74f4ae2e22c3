"""Triton model `tensorrt_llm` of backend PyTorch: TensorRT-LLM's LLM API, guarded and shared.

`served` beside this file is upstream's model or ours: requests of Triton's clients are its. The
gateway reaches the same LLM as it reaches trtllm-serve: by upstream's own OpenAI server, on
loopback. Images are fetched under the gateway's rules.
"""

import asyncio
import inspect
import io
import socket
import time
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import triton_python_backend_utils as pb_utils
from served import TritonPythonModel as Served

from mm_runtime.images.fetch import FetchPolicy, FetchRefusedError, ImageFetcher
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.media import MediaLimits, image_from_url
from mm_runtime.serving.preprocess.remote_images import is_remote
from mm_runtime.serving.triton import ModelSettings

LOOPBACK = "127.0.0.1"
POLL_SECONDS = 0.05


class TritonPythonModel(Served):  # type: ignore[misc]  # upstream's, or ours, beside it
    """The model beside this file, with a gateway before the same LLM."""

    def initialize(self, args: dict[str, str]) -> None:
        """Start the LLM, then the gateway's door to it."""
        settings = ModelSettings(args)
        self._gateway = settings.serving.gateway
        self._address = LOOPBACK, int(settings.text("port"))
        self._fetcher = ImageFetcher(FetchPolicy.of(self._gateway))
        super().initialize(args)

    def _init_engine(self) -> None:
        """Start the LLM, and upstream's OpenAI server of it; the supervisor waits for both."""
        super()._init_engine()
        server = _openai_server(self._llm_engine)
        work = asyncio.run_coroutine_threadsafe(server(*self._address), self._event_loop)
        while not _listens(self._address):
            time.sleep(POLL_SECONDS)
            if work.done():
                raise pb_utils.TritonModelException(f"the OpenAI server ended: {work.exception()}")

    async def _build_multimodal_prompt(self, text: str, media: Sequence[str]) -> Any:
        """Return the prompt of a question about images; RequestError: one of them is refused."""
        most = self._gateway.max_images_per_request
        if len(media) > most:
            raise RequestError(f"image_url: {len(media)} images, at most {most} a request")
        images = [await self._image(url) for url in media]
        return await super()._build_multimodal_prompt(text, images)

    async def _image(self, url: str) -> str:
        try:
            fetched = {url: await self._fetcher.fetch(url)} if is_remote(url) else {}
        except FetchRefusedError as error:
            raise RequestError(f"image_url: {error}") from None
        limits = MediaLimits(self._gateway.max_image_bytes, self._gateway.max_image_pixels)
        image = await asyncio.to_thread(image_from_url, url, limits, fetched)
        file = io.BytesIO()
        image.save(file, "PPM")  # loses nothing, and costs a copy
        return f"data:image/x-portable-pixmap;base64,{b64encode(file.getvalue()).decode()}"


def _listens(address: tuple[str, int]) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(address) == 0


def _openai_server(llm: Any) -> Any:
    """Return the server that trtllm-serve runs; what a version requires besides is None there."""
    from tensorrt_llm.serve import OpenAIServer  # noqa: PLC0415 (loads CUDA)

    _llm, *known = inspect.signature(OpenAIServer).parameters.values()
    given: dict[str, Any] = {one.name: None for one in known if one.default is one.empty}
    return OpenAIServer(llm, **given | {"model": str(llm.args.model)})
