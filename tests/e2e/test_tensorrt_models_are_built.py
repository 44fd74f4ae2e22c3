"""`kubectl apply` of a TensorRT model: planned from the node, built in a Job, resumed, rolled out.

The node plays one with a GPU.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.advertised_gpus import GPU, gpu_node
from support.eventually import eventually
from support.gpu_nodes import H100
from support.installed import CLAIM, RESOURCES, Installed, Space, model_space
from support.lora_adapters import LLAMA, pair, write_adapter
from support.outside import kill_container
from support.recorded_image import make_image
from support.tiny_llava import CHECKPOINT

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]

BUILD_SECONDS = 400
QUERIES = pair(LLAMA, rank=4, source=128, target=128, module="self_attn.q_proj")


def pods_of(space: Space, component: str) -> list[dict[str, Any]]:
    items = space.get("pods", "-l", f"app.kubernetes.io/component={component}").get("items", [])
    return sorted(items, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))


def commands_of_mmctl(space: Space, model: str, folder: Path) -> list[list[str]]:
    facts = folder / "facts.json"
    facts.write_text(space.get("configmap", f"{model}-facts")["data"]["facts.json"])
    resource = space.read(model)
    kept = {key: resource[key] for key in ("apiVersion", "kind", "spec")}
    path = folder / "model.yaml"
    path.write_text(yaml.safe_dump({**kept, "metadata": {"name": model}}))
    argv = [str(Path(sys.executable).parent / "mmctl"), "plan", "-f", str(path), "-o", "commands"]
    argv += ["--facts", str(facts), "--gpu", H100]
    text = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout
    lines = text.replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [line for line in words if line and line[0] != "set"]


def read_store(space: Space, image: str, path: str) -> str:
    container = {
        "name": "reader",
        "image": image,
        "command": ["cat", f"/mnt/claim/{path}"],
        "volumeMounts": [{"name": "claim", "mountPath": "/mnt/claim"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    volume = {"name": "claim", "persistentVolumeClaim": {"claimName": CLAIM}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "reader", "namespace": space.name},
        "spec": {"restartPolicy": "Never", "containers": [container], "volumes": [volume]},
    }
    space.apply(pod)
    ended = eventually(
        lambda: space.get("pod", "reader").get("status", {}).get("phase") == "Succeeded"
    )
    assert ended, space.kubectl("logs", "reader", check=False)
    return space.kubectl("logs", "reader")


def test_a_tensorrt_model_is_built_and_rolled_out(installed: Installed, tmp_path: Path) -> None:
    """Planned for the node's GPU; killed inside an engine's step, the build continues there.

    It has a LoRA adapter and two ranks. The journal holds the commands of `mmctl plan`, and a pod
    takes a GPU of the product for each rank.
    """
    _, image = make_image(installed, tmp_path)
    with gpu_node(installed.cluster, 2) as node, model_space(installed, "tensorrt-models") as space:
        space.upload(CHECKPOINT, "llava")
        space.upload(write_adapter(tmp_path / "adapter", QUERIES, rank=4), "adapter")
        adapter = {"persistentVolumeClaim": {"claimName": CLAIM, "path": "adapter"}}
        store = {"persistentVolumeClaim": {"claimName": CLAIM, "path": "store"}}
        model = space.model(
            "m",
            "llava",
            engine={
                "backend": "TensorRT",
                "parallelism": {"tensor": 2},
                "lora": [{"name": "french", "source": adapter}],
            },
            build={
                "image": image,
                "trtllmVersion": "0.20.0",
                "store": store,
                "evaluation": "Off",  # the recorded server's tokens are no model's
            },
            runtime={"image": image, "resources": RESOURCES},
        )
        space.apply(model)
        reported = space.wait("m", "Planned", lambda one: one.holds)
        assert f"on 2 x {H100}: " in reported.message

        def in_the_middle() -> dict[str, Any] | None:
            found = pods_of(space, "build")
            name = found[0]["metadata"]["name"] if found else ""
            said = space.kubectl("logs", name, check=False) if name else ""
            return found[0] if "[build-llm] $" in said else None

        first = eventually(in_the_middle, seconds=BUILD_SECONDS)
        assert first, "the engine's build never began"
        kill_container(first, "mm-runtime")
        space.wait("m", "EngineBuilt", lambda one: one.holds, BUILD_SECONDS)
        build = space.read("m")["status"]["build"]
        assert build["phase"] == "Succeeded"
        assert "reusedFrom" not in build

        journal = read_store(
            space, image, f"store/engines/{build['fingerprint']}/build/journal.json"
        )
        entries = json.loads(journal)["entries"]
        ran = [entry["argv"] for entry in entries if entry["argv"]]
        assert commands_of_mmctl(space, "m", tmp_path) == ran
        assert any("--lora_target_modules" in argv for argv in ran)

        served = eventually(lambda: pods_of(space, "server"))
        assert served, space.read("m")["status"]
        spec = served[0]["spec"]
        server = next(one for one in spec["initContainers"] if one["name"] == "server")
        assert spec["nodeSelector"] == {"nvidia.com/gpu.product": H100}
        assert server["resources"]["limits"][GPU] == "2"
        placed = eventually(
            lambda: pods_of(space, "server")[0]["spec"].get("nodeName"), seconds=120
        )
        assert placed == node
