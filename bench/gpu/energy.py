"""Are the joules that a server reports those of the driver's counter?

    python bench/gpu/energy.py --out bench/gpu/results/energy.json

serves tiny-llava on the first GPU, which is sent images without pause by four clients. Triton's
counter `nv_energy_consumption` (joules of each GPU, which the board of energy reads) and NVML's
total energy (millijoules since the driver was loaded, what `nvidia-smi` averages its power from)
are read before and after, for the GPU that both know by its UUID. Triton reads its counter every
two seconds (`metrics-interval-ms`), so the two may differ by what a GPU takes in that time.
"""

import argparse
import ctypes
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from gpu_record import RESULTS, driver, write
from sites import chat, make_site, noise, send_all

from support.real_gateway import RealGateway, run_pair
from support.tiny_llava import CHECKPOINT

ENERGY = re.compile(r'^nv_energy_consumption\{[^}]*gpu_uuid="([^"]+)"[^}]*} (\S+)$', re.MULTILINE)
SETTLED_SECONDS = 5
SPEC = {
    "engine": {"maxBatchSize": 8, "maxImagesPerRequest": 1},
    "vision": {"engine": "Torch", "sharing": "TimeSlicing"},
    "build": {"evaluation": "Off"},
}


def counted() -> dict[str, float]:
    """Return UUID -> joules by NVML; none where there is no driver."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return {}
    found, millijoules, handle = {}, ctypes.c_ulonglong(), ctypes.c_void_p()
    assert not nvml.nvmlInit_v2()
    for uuid in driver("--query-gpu=uuid", "--format=csv,noheader"):
        assert not nvml.nvmlDeviceGetHandleByUUID(uuid.strip().encode(), ctypes.byref(handle))
        said = nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(millijoules))
        if not said:
            found[uuid.strip()] = millijoules.value / 1e3
    return found


def reported(pair: RealGateway) -> dict[str, float]:
    """Return UUID -> joules by Triton."""
    return {uuid: float(joules) for uuid, joules in ENERGY.findall(pair.triton_metrics())}


def measured(pair: RealGateway, seconds: float) -> dict[str, Any]:
    """Return the joules of each GPU by both, while images are sent."""
    images = [
        chat(pair.url, pair.model, "What is it?", [noise(at, 56)], tokens=32) for at in range(64)
    ]
    time.sleep(SETTLED_SECONDS)
    began, before, before_here = time.monotonic(), reported(pair), counted()
    answered = 0
    while time.monotonic() - began < seconds:
        answered += sum(isinstance(one, str) for one in send_all(images, 4))
    taken, after, after_here = time.monotonic() - began, reported(pair), counted()
    gpus = {
        uuid: {
            "triton_joules": round(joules - before.get(uuid, 0.0), 1),
            "nvml_joules": round(after_here[uuid] - before_here[uuid], 1),
            "ratio": round(
                (joules - before.get(uuid, 0.0)) / (after_here[uuid] - before_here[uuid]), 4
            ),
        }
        for uuid, joules in after.items()
        if uuid in before_here and after_here[uuid] > before_here[uuid]
    }
    return {
        "seconds": round(taken, 1),
        "answered": answered,
        "gpus": gpus,
        "nvml_gpus": len(after_here),
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "energy.json")
    parser.add_argument("--device", default="CUDA")
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    spec = SPEC if options.device == "CUDA" else {**SPEC, "vision": {"engine": "Torch"}}
    with tempfile.TemporaryDirectory(prefix="e-") as temporary:
        folder = Path(temporary)
        site = make_site(folder / "site", CHECKPOINT, device=options.device, spec=spec)
        (folder / "serve").mkdir()
        with run_pair(site.engine, folder / "serve") as pair:
            write(options.out, "python bench/gpu/energy.py", measured(pair, options.seconds))


if __name__ == "__main__":
    main()
