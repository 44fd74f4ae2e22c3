"""Which engine a serving plan means.

Only that one's client is imported: gRPC's or HTTP's takes 0.2 s of a pod's start.
"""

from typing import TYPE_CHECKING

from mm_api.documents.engine_manifest import ADAPTERS_FOLDER
from mm_api.documents.serving_plan import ServingPlan
from mm_api.families import FAMILIES
from mm_api.gateway_memory import encoding_bytes
from mm_runtime.base.trtllm_names import has_newer_names
from mm_runtime.gateway.prompts.loading import load_turn_writer
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.prompts.tokens import TextCodec

if TYPE_CHECKING:
    from mm_runtime.gateway.backends.triton import TritonEngine
    from mm_runtime.gateway.backends.trtllm_serve import TrtllmServeEngine


def open_engine(
    directory: EngineDirectory, serving: ServingPlan, triton: str
) -> "TritonEngine | TrtllmServeEngine":
    """Return the engine of a pod; no request is sent yet.

    Args:
        directory: what the pod serves.
        serving: how it serves.
        triton: host:port of Triton's gRPC endpoint, for the backends that have one.

    Raises:
        OSError, ValueError: the engine's tokenizer or chat template is missing or unusable, or the
            server would drop its adapters.
    """
    plan, build = serving.trtllm_serve, directory.manifest.plan.trtllm
    if plan is None:
        from mm_runtime.gateway.backends.triton import TritonEngine  # noqa: PLC0415 (see module)
        from mm_runtime.gateway.backends.triton_inputs import (  # noqa: PLC0415
            NEWER_NAMES,
            OLDER_NAMES,
        )

        newer = build is not None and has_newer_names(build.version)
        codec = TextCodec(directory.tokenizer)
        names = NEWER_NAMES if newer else OLDER_NAMES
        reuses = serving.reuse_bytes is not None
        salts_text = serving.kv_cache is None or not serving.kv_cache.reuse
        return TritonEngine(
            triton,
            codec.decode,
            codec=codec,
            names=names,
            reuses=reuses,
            salts_text=salts_text,
        )
    from mm_runtime.gateway.backends.trtllm_serve import TrtllmServeEngine  # noqa: PLC0415

    folder = directory.root.absolute() / ADAPTERS_FOLDER
    adapters = {one.uid: folder / one.name for one in directory.manifest.plan.adapters}
    if adapters and not plan.applies_adapters:
        # It would answer requests with one as the checkpoint alone, without an error.
        raise ValueError(
            "the engine has LoRA adapters and the serving plan no lora_config: it comes from"
            " another version of the operator, which has to plan again"
        )
    served = FAMILIES[directory.facts.family].pytorch
    joins = served is not None and served.joins_messages  # it uses no template at all
    return TrtllmServeEngine(
        f"127.0.0.1:{plan.port}",
        serving.model,
        request_seconds=serving.gateway.request_timeout_seconds,
        takes_salt=plan.takes_salt,
        adapters=adapters,
        as_videos=serving.gateway.max_video_frames > 0,
        write=load_turn_writer(directory) if plan.takes_templates and not joins else None,
        encoding_bytes=encoding_bytes(serving.gateway),
    )
