"""What two_pods.py runs in pods: a try of the GPU's kernels, an encoder beside the pod's own."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from cluster_models import WHERE, until
from cluster_shapes import in_server

from mm_devcluster.demo import installation, settings
from mm_devcluster.demo.session import Session
from mm_devcluster.demo.target import Target
from mm_devcluster.images.catalogue import RUNTIME

KERNELS = """
import logging, torch
from mm_runtime.reference_engine.fused.opening import open_kernels
logging.basicConfig()
raise SystemExit(open_kernels(torch.device("cuda")) is None)
"""
"""Run in a pod: fails with the compiler's words where a GPU has none."""

KERNELS_SECONDS = 120

ENCODING = """
import base64, glob, json, os, statistics, sys, time
from pathlib import Path
import numpy as np

for file in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        words = open(file).read().split(chr(0))
        variables = dict(
            one.partition("=")[::2]
            for one in open(file.replace("cmdline", "environ")).read().split(chr(0))
        )
    except OSError:
        continue
    if "--manifest" in words:
        root = Path(words[words.index("--manifest") + 1]).parent
        serving = Path(words[words.index("--serving") + 1])
    if "CUDA_MPS_PIPE_DIRECTORY" in variables and len(sys.argv) < 3:
        os.environ |= {one: variables[one] for one in variables if one.startswith("CUDA_MPS_")}

from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.serving.directory import EngineDirectory

sharing = ServingPlan.from_json(serving.read_bytes()).sharing
if "CUDA_MPS_PIPE_DIRECTORY" in os.environ and sharing:
    os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(sharing.thread_percentage)

import torch
from mm_runtime.serving.encode.vision.load import load_encoder

engine = EngineDirectory.open(root)
encoder = load_encoder(engine, engine.vision, device=sys.argv[1], leave_as="bfloat16")
side, taken = engine.vision.image_size, []
pixels = np.random.default_rng(0).normal(size=(8, 3, side, side)).astype(np.float32)
for _ in range(13):
    began = time.perf_counter()
    encoder.encode([pixels])
    taken.append(time.perf_counter() - began)
rows = torch.as_tensor(encoder.encode([pixels[:1]])[0].table).float()[::16].numpy()
on_gpu = sys.argv[1] == "CUDA"
print(json.dumps({
    "seconds": statistics.median(taken[3:]) / 8,
    "processors": torch.cuda.get_device_properties(0).multi_processor_count if on_gpu else 0,
    "rows": base64.b64encode(rows.tobytes()).decode(),
}))
"""
"""Run in a pod with an encoder, with its share of the card: seconds of an image, of eight together,
from host memory and back; multiprocessors; a sixteenth of the features of one image, in float32."""


def try_kernels(session: Session) -> None:
    """Run a pod of the runtime's image that computes with the kernels of a GPU.

    Raises:
        AssertionError: it has none; holds the compiler's words.
    """
    target, name = session.target, "kernels"
    installation.make_namespace(target, settings.DEMO_NAMESPACE)
    container = {
        "name": name,
        "image": session.images[RUNTIME.name].reference,
        "command": ["python", "-c", KERNELS],
        "env": [{"name": "TRITON_CACHE_DIR", "value": "/tmp/triton"}],  # noqa: S108
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    meta = {"name": name, "namespace": settings.DEMO_NAMESPACE}
    spec = {"restartPolicy": "Never", "containers": [container]}
    target.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    phase = ""

    def ended() -> bool:
        nonlocal phase
        phase = target.document("pod", name, *WHERE)["status"].get("phase", "")
        return phase in ("Succeeded", "Failed")

    until("the end of a pod that tries kernels", ended, KERNELS_SECONDS)
    said = target.call("logs", name, *WHERE)
    target.call("delete", "pod", name, *WHERE, "--wait=false")
    assert phase == "Succeeded", said[-3000:]


def encoding(target: Target, pod: Mapping[str, Any], device: str, *more: str) -> dict[str, Any]:
    """Return seconds of an image in the encoder of a pod, its multiprocessors, and features.

    `more`: a word, whichever, gives it all of the card, without MPS.
    """
    found: dict[str, Any] = json.loads(in_server(target, pod, ENCODING, device, *more))
    found["rows"] = np.frombuffer(base64.b64decode(found["rows"]), dtype=np.float32)
    return found


def of_features(here: Mapping[str, Any], there: Mapping[str, Any]) -> dict[str, Any]:
    """Return how much features of two encoders differ, and where they were made."""
    mine, other = here["rows"], there["rows"]
    return {
        "processors": [here["processors"], there["processors"]],
        "seconds": [here["seconds"], there["seconds"]],
        "equal": round(float((mine == other).mean()), 4),
        "distance": float(np.linalg.norm(mine - other) / np.linalg.norm(mine)),
    }
