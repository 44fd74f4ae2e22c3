"""PURE: the one model behind a gateway: its names, limits and defaults.

As other servers of open models do, an adapter is a model of its own that has the base model as its
`parent`. `BASE:ADAPTER` names it too, and it alone where an adapter is called like its base model.
`model` means the base model, as programs call the one model of DashInfer-VLM's server.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mm_api.contract import MODEL_ALIAS
from mm_api.documents.model_facts import AudioFacts
from mm_api.modalities import Modality, held
from mm_edge.errors import UnknownModelError
from mm_runtime.gateway.admission.tokens import ContextLimits
from mm_runtime.gateway.api.tool_dialects import ToolDialect


@dataclass(frozen=True, slots=True)
class ModelNames:
    """The names that one gateway answers to."""

    base: str
    adapters: Mapping[str, int]
    """Name -> id, as the engine takes it."""

    def adapter(self, requested: str) -> int | None:
        """Return the id of the adapter that a name means, None for the base model.

        Raises:
            UnknownModelError: nothing here has that name.
        """
        if requested == self.base:
            return None
        found = self.adapters.get(requested.removeprefix(f"{self.base}:"))
        if found is None and requested == MODEL_ALIAS:
            return None
        if found is None:
            served = ", ".join(map(repr, self.parents()))
            raise UnknownModelError(
                f"The model {requested[:100]!r} does not exist here; "
                f"this endpoint serves {served}.",
                param="model",
                code="model_not_found",
            )
        return found

    def parents(self) -> dict[str, str | None]:
        """Return every listed name, and of adapters the model that they change."""
        listed = {
            f"{self.base}:{name}" if name == self.base else name: self.base
            for name in self.adapters
        }
        return {self.base: None, **listed}


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The one model behind this gateway.

    `created`: seconds since the epoch, when its engine was built. `max_video_frames` 0, `audio` and
    `dialect` None: it takes no videos, recordings, tools. `max_features`: of images and videos
    together; None: no request has more. `temperature`, `top_p`: used when a request gives none.
    `calls_missing`: why calls of earlier answers do not reach the prompt; empty: they do.
    """

    name: str
    backend: str
    family: str
    vocabulary_size: int
    created: int
    fingerprint: str
    limits: ContextLimits
    max_images: int
    max_video_frames: int
    temperature: float
    top_p: float
    max_features: int | None = None
    audio: AudioFacts | None = None
    audio_features: Callable[[int], int] = lambda _: 0
    """Tokens that a recording of so many samples becomes."""

    adapters: Mapping[str, int] = field(default_factory=dict)
    dialect: ToolDialect | None = None
    calls_missing: str = ""

    transcribes: bool = False
    """It reads audio and nothing else."""

    @property
    def input_modalities(self) -> list[Modality]:
        return held(
            images=self.max_images > 0,
            video=self.max_video_frames > 0,
            audio=self.audio is not None,
            only_audio=self.transcribes,
        )

    @property
    def stated_limits(self) -> dict[str, object]:
        """Return what `/openapi.json` says of this model beside the types of requests."""
        return {
            "model": self.name,
            "adapters": sorted(self.adapters),
            "modalities": self.input_modalities,
            "promptTokens": self.limits.max_input_len,
            "promptAndAnswerTokens": self.limits.max_seq_len,
            "images": self.max_images,
            "videoFrames": self.max_video_frames,
            "temperature": self.temperature,
            "topP": self.top_p,
        }

    @property
    def names(self) -> ModelNames:
        return ModelNames(self.name, self.adapters)
