"""The container that pulls an engine from a bucket before the server starts."""

from collections.abc import Sequence

from mm_api.contract import CONFIG_MOUNT, SERVING_FILE, Command, Flag
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.children import pod, sources, volumes
from mm_operator.children.metadata import Manifest
from mm_operator.plan.store import store_of

NAME = "pull"
_REQUESTS = {"cpu": "500m", "memory": "256Mi"}
_MEMORY_LIMIT = "512Mi"
"""Six parts of 16 MB wait in memory, beside a Python process of 60 MB."""


def build_pull(
    spec: MultimodalModelSpec, image: str, fingerprint: str, role: Sequence[str] = ()
) -> list[Manifest]:
    """Return the container when the store is a bucket: every byte is checked on its way.

    A damaged engine ends it with the code of a rebuild. `role`: of a pod that opens a part of it.
    """
    store = store_of(spec)
    if not store.bucket:
        return []
    flags = {
        Flag.STORE: store.bucket,
        Flag.TO: store.directory,
        Flag.SERVING: f"{CONFIG_MOUNT}/{SERVING_FILE}",
    }
    return [
        pod.container(
            NAME,
            image,
            [Command.STORE, Command.STORE_PULL, fingerprint, *pod.flags(flags), *role],
            variables=sources.store_environment(spec),
            mounts=[volumes.store_mount(), volumes.config_mount()],
            resources=pod.small(_REQUESTS, _MEMORY_LIMIT, beside=spec.runtime.resources),
        )
    ]
