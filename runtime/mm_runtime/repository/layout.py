"""PURE: manifest and serving plan -> every file of Triton's model repository."""

from collections.abc import Mapping
from pathlib import PurePath
from types import ModuleType

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.server_state import Role
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.errors import PermanentError
from mm_runtime.repository.configs import (
    bls_ensemble,
    ensemble,
    llmapi,
    multimodal_encoders,
    postprocessing,
    preprocessing,
    scored_ensemble,
    tensorrt_llm,
    tensorrt_llm_bls,
    token_ensemble,
    vision_encoder,
    whisper_bls,
)
from mm_runtime.repository.model_config import as_text
from mm_runtime.repository.values import RepositoryValues, values_of

PYTHON_MODELS = (
    preprocessing,
    multimodal_encoders,
    tensorrt_llm,
    postprocessing,
    tensorrt_llm_bls,
)
MODELS = (ensemble, *PYTHON_MODELS)
MODEL_NAMES = tuple(module.NAME for module in MODELS)
ENCODER_MODELS = (vision_encoder,)
"""What a pod serves that only encodes images."""

SHIPPED = tuple(module.NAME for module in (*PYTHON_MODELS, *ENCODER_MODELS))
"""Models with a file `model.py`."""
SAME_SOURCE = dict.fromkeys((whisper_bls, bls_ensemble, llmapi), tensorrt_llm_bls.NAME)
"""Model -> another one whose `model.py` it runs, with tensors of its own."""


def models_of(values: RepositoryValues, role: Role) -> tuple[ModuleType, ...]:
    """Return the modules of the models that a pod serves: of text-only engines no encoder."""
    if role is Role.ENCODER:
        return ENCODER_MODELS
    absent: list[ModuleType] = []
    if not values.has_vision:
        absent.append(multimodal_encoders)
    if values.accepts_audio or not values.serving.bls_instances:
        absent.append(tensorrt_llm_bls)
    added: list[ModuleType] = []
    if values.accepts_audio and values.serving.bls_instances:
        added.append(whisper_bls)
    if values.serving.llmapi and not values.accepts_audio:
        added.append(llmapi)
    if not values.serving.streaming and values.serving.bls_instances:
        absent.append(ensemble)
        added += [bls_ensemble]
    present = (one for one in MODELS if one not in absent)
    return (*present, *added, token_ensemble, scored_ensemble)


def layout(
    manifest: EngineManifest,
    serving: ServingPlan,
    *,
    engine_dir: PurePath,
    serving_plan: PurePath,
    adapters: PurePath,
    sources: Mapping[str, str],
    role: Role = Role.SERVER,
) -> dict[str, str]:
    """Return path -> content of the repository; folders are given as the models reach them.

    Raises:
        PermanentError: the engine's dtype cannot be served, its plan does not say how, or an
            encoder is requested and it has none.
    """
    values = values_of(manifest, serving, engine_dir, serving_plan, adapters)
    if role is Role.ENCODER and not values.has_vision:
        raise PermanentError(
            f"Family {manifest.plan.engine.family} has no vision encoder that a pod could serve;"
            " set spec.vision.placement to Colocated."
        )
    models = models_of(values, role)
    files = {f"{module.NAME}/config.pbtxt": as_text(module.config(values)) for module in models}
    for module in models:
        runs = SAME_SOURCE.get(module, module.NAME)
        python = runs in SHIPPED and not (module is tensorrt_llm and not values.own_tensors)
        # Triton wants a version directory even for a model that has no file of its own.
        name, content = ("model.py", sources[runs]) if python else (".keep", "")
        files[f"{module.NAME}/1/{name}"] = content
    return files
