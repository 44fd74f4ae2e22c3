"""Proof before readiness: one real question, with a picture where the model takes any.

A server that loads is not a server that answers: a wrong vision engine or prompt table shows only
in an answer. The proof is repeated when Triton was away in between.
"""

import asyncio
import base64
import io
import logging
from collections.abc import Awaitable, Callable
from uuid import uuid4

import numpy as np
from PIL import Image

from mm_runtime.gateway.dataplane import AnyRequest, ChatService, Piece
from mm_runtime.gateway.openai import ChatRequest, CompletionRequest, TranscriptionRequest
from mm_runtime.gateway.sound import tone

_log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 60.0
"""For one proof: the first request of a big engine warms kernels up."""
_RETRY_SECONDS = 0.5
_WATCH_SECONDS = 2.0
_MAX_TOKENS = 4
_PICTURE_PIXELS = 64
_TEXT = "Are you ready?"
_HERTZ = 440.0


class PreflightFailedError(Exception):
    """The path answered, but with nothing."""


class Preflight:
    """Knows whether the whole path has been proved since Triton was last away.

    Args:
        service: the path.
        after_first: done once, after the first proof and before anybody is let in.
    """

    def __init__(
        self, service: ChatService, after_first: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._service = service
        self._after_first = after_first
        self.passed = False

    async def is_ready(self) -> bool:
        """Say whether the path was proved and Triton is ready now."""
        return self.passed and await self._service.engine.is_ready()

    async def watch(self) -> None:
        """Prove the path, then watch Triton, for ever."""
        reported = ""
        while True:
            if self.passed:
                await asyncio.sleep(_WATCH_SECONDS)
                if not await self._service.engine.is_ready():
                    self.passed = False
                    _log.warning("Triton is not ready; the path is proved again when it is back")
                continue
            try:
                await self.prove()
            except Exception as error:  # noqa: BLE001 - whatever it is, the pod stays unready and tries
                told = str(error) or type(error).__name__
                if told != reported:
                    reported = told
                    _log.warning("preflight failed, trying again: %s", told)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                reported = ""
                if self._after_first is not None:
                    await self._after_first()
                    self._after_first = None
                self.passed = True
                _log.info("preflight passed: a question was answered")

    async def prove(self) -> None:
        """Ask one question about one generated picture, or have one generated sound written down.

        Raises:
            GatewayError: a stage refused or failed.
            PreflightFailedError: Triton is away, or its answer was nothing.
            TimeoutError: no answer in time.
        """
        if not await self._service.engine.is_ready():
            raise PreflightFailedError("Triton is not ready yet")
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            with self._service.admission.place():
                chat = await self._service.prepare(self._question())
                events = self._service.answer(chat, request_id=f"preflight-{uuid4().hex}")
                kinds = [type(event) async for event in events]
                # An ensemble that misses an input ends its stream with nothing in it, as if well.
                if Piece not in kinds:
                    raise PreflightFailedError("the model's answer was nothing, not even an end")

    def _question(self) -> AnyRequest:
        common = {
            "model": self._service.model.name,
            "max_tokens": _MAX_TOKENS,
            "temperature": 0,
        }
        if self._service.hears:
            return TranscriptionRequest.model_validate({**common, "file": tone(_HERTZ)})
        if not self._service.chats:
            return CompletionRequest.model_validate({**common, "prompt": _TEXT})
        parts: list[dict[str, object]] = [{"type": "text", "text": "What is in the image?"}]
        if self._service.model.max_images:
            parts.append({"type": "image_url", "image_url": {"url": _picture_url()}})
        return ChatRequest.model_validate(
            {**common, "messages": [{"role": "user", "content": parts}]}
        )


def _picture_url() -> str:
    """Return a red square on a grey gradient as a PNG data URL."""
    side = _PICTURE_PIXELS
    pixels = np.repeat(np.linspace(64, 192, side, dtype=np.uint8)[None, :, None], 3, axis=2)
    pixels = np.repeat(pixels, side, axis=0)
    pixels[side // 4 : side // 2, side // 4 : side // 2] = (220, 20, 20)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
