"""How the pod of a comparison reaches the checkpoint of an engine that does not hold it.

As the builder of that engine does: its address, the credentials by name, the claim, proxy, mirror.
It lies on the disk of the pod's node.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from mm_api.contract import Flag
from mm_api.documents.model_facts import ModelFacts
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_api.v1alpha1.network import NetworkSpec
from mm_ctl.comparing.run import CompareFailedError
from mm_operator.children import sources, volumes
from mm_operator.children.outward import with_network
from mm_operator.plan.records import FACTS_KEY, NETWORK_KEY

_VOLUME: Final = "checkpoint"
_MOUNT: Final = "/mnt/checkpoint"
_DISK: Final = "ephemeral-storage"
_BESIDE_BYTES: Final = 1 << 30
"""Tokenizer and configuration (tokenizer.json of 262,144 tokens, as Gemma 3's, has 33 MB), scratch
files and logs: chosen as an upper bound."""


def needs_source(spec: MultimodalModelSpec) -> bool:
    """Return whether the engine is other than the checkpoint's own files."""
    return spec.engine.traits.builds_engines


def read_inspected(config: Mapping[str, Any] | None, name: str) -> tuple[ModelFacts, NetworkSpec]:
    """Return what a ConfigMap records: the facts, and the network of the Jobs that read them.

    Raises:
        CompareFailedError: it is not there or damaged, so the checkpoint's size is not known.
    """
    held = (config or {}).get("data") or {}
    try:
        facts = ModelFacts.from_json(held.get(FACTS_KEY, ""))
        network = NetworkSpec.model_validate_json(held.get(NETWORK_KEY, "{}"))
    except ValidationError as error:
        state = "is not there" if config is None else "cannot be read"
        raise CompareFailedError(
            f"the size of the checkpoint is not known: ConfigMap {name} {state}. The operator "
            "writes it after an inspection, and again where it was damaged: see mmctl status"
        ) from error
    return facts, network


def disk_bytes(facts: ModelFacts, *, engine: int | None) -> int:
    """Return what the pod may take.

    Args:
        facts: of the checkpoint. Pickles stay beside the safetensors that are made of them.
        engine: bytes of the engine where the pod pulls it from a bucket, 0 where a claim holds it;
            None: not recorded. An engine is no larger than its weights then.
    """
    copies = 2 if facts.weight_format == "pickle" else 1
    pulled = facts.weight_bytes if engine is None else engine
    return copies * facts.weight_bytes + pulled + _BESIDE_BYTES


def with_source(
    pod: Mapping[str, Any],
    spec: MultimodalModelSpec,
    commit: str | None,
    *,
    network: NetworkSpec,
    disk_bytes: int,
) -> dict[str, Any]:
    """Return a pod of a comparison that fetches the checkpoint to the disk of its node.

    Args:
        pod: as `compare_pod` makes it.
        spec: of the model.
        commit: what a revision of the Hub stood for when it was inspected; None: no such source.
        network: how the builder reaches the source, the operator's settings included.
        disk_bytes: of the node that the pod may use. The scheduler finds a node that has so much.
    """
    before = pod["spec"]
    (own,) = before["containers"]
    attached, mounts = _claim(before["volumes"], spec)
    known = {one["name"] for one in own["env"]}
    wanted = sources.source_environment(spec, network)
    disk = str(disk_bytes)
    resources = own["resources"]
    container = {
        **own,
        "args": [
            *own["args"],
            *(Flag.SOURCE, sources.source_argument(spec, commit)),
            *(Flag.WORK, _MOUNT),
        ],
        "env": [*own["env"], *(one for one in wanted if one["name"] not in known)],
        "resources": {
            "requests": {**resources["requests"], _DISK: disk},
            "limits": {**resources["limits"], _DISK: disk},
        },
        "volumeMounts": [
            *own["volumeMounts"],
            *mounts,
            {"name": _VOLUME, "mountPath": _MOUNT},
        ],
    }
    account = spec.build.service_account_name
    changed = {
        **before,
        **({"serviceAccountName": account} if account else {}),
        "containers": [container],
        "volumes": [
            *before["volumes"],
            *attached,
            {"name": _VOLUME, "emptyDir": {"sizeLimit": disk}},
        ],
    }
    # The bundle is there: every container of the model's pods has it.
    proxy = NetworkSpec(proxy=network.proxy)
    return {**pod, "spec": with_network(changed, proxy, proxied={container["name"]})}


def _claim(
    there: list[dict[str, Any]], spec: MultimodalModelSpec
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the volume and the mount of a claim; no second volume where one pod has it already."""
    claim = volumes.source_claim(spec)
    if not claim:
        return [], []
    same = [
        one["name"]
        for one in there
        if (one.get("persistentVolumeClaim") or {}).get("claimName") == claim
    ]
    if same:
        return [], volumes.source_mounts(spec, same[0])
    source = {"claimName": claim, "readOnly": True}
    volume = {"name": volumes.SOURCE, "persistentVolumeClaim": source}
    return [volume], volumes.source_mounts(spec)
