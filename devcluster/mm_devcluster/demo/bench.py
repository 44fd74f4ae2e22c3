"""The command behind `make demo-bench`: the hundred requests of a guide to a demo that runs."""

import argparse
import subprocess
import sys
from pathlib import Path

from mm_devcluster import cluster
from mm_devcluster.demo import settings
from mm_devcluster.demo.questions import forwarded
from mm_devcluster.demo.target import Target
from mm_devcluster.errors import DevClusterError

BENCH_SECONDS = 600


def main() -> int:
    """Forward a port to the model and load it; the exit code is that of `mm-lab bench`."""
    parser = argparse.ArgumentParser(prog="demo-bench", description=__doc__)
    parser.add_argument("--cluster", default=settings.Options.cluster)
    parser.add_argument("--family", choices=settings.FAMILIES, default=settings.FIRST)
    parser.add_argument("--scenario", default="dashinfer")
    options = parser.parse_args()
    model = settings.FAMILIES[options.family].model
    program = str(Path(sys.executable).parent / "mm-lab")
    try:
        found = cluster.info(options.cluster)
        target = Target(found.name, found.kubeconfig, found.kubectl)
        with forwarded(target, model) as address:
            command = [program, "bench", f"{address}/v1", "--scenario", options.scenario]
            command += ["--images", "1", "--max-tokens", "16"]  # what the demo's models take
            return subprocess.run(command, check=False, timeout=BENCH_SECONDS).returncode
    except (DevClusterError, subprocess.TimeoutExpired) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
