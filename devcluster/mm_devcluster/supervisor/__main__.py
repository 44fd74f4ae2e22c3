"""Run a cluster: ``python -m mm_devcluster.supervisor SPEC.json``, until SIGTERM or SIGKILL."""

import json
import os
import signal
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from mm_devcluster.supervisor.children import Child, part_environment, reap_orphans
from mm_devcluster.supervisor.gates import is_open
from mm_devcluster.supervisor.node_setup import set_up
from mm_devcluster.supervisor.spec import SupervisorSpec
from mm_devcluster.supervisor.store_cleaning import clean

TICK = 0.1  # seconds between looks at gates and new volumes; 0.3 % of one core
WAKING = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}


def main() -> int:
    """Start the parts, supervise them until a signal to stop, kill them."""
    spec = SupervisorSpec.read(Path(sys.argv[1]))
    os.chdir("/")
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_BLOCK, WAKING)
    if spec.node is not None:
        set_up(spec.node)
    if spec.cleaning is not None:
        clean(spec.cleaning)
    environment = part_environment(spec.node.xtables if spec.node else "")
    children = [Child(part, environment) for part in spec.parts]
    volumes = Path(spec.volumes) if spec.volumes else None
    opened: set[str] = set()
    while True:
        looked = cache(is_open)  # parts share gates, and an API server that starts is slow to say
        changed = [child.tend(looked) for child in children]
        if any(changed):
            _write_state(Path(spec.state_file), children)
        reap_orphans({child.process.pid for child in children if child.process is not None})
        if volumes is not None:
            open_new_volumes(volumes, opened)
        woken = signal.sigtimedwait(WAKING, TICK)
        if woken is not None and woken.si_signo != signal.SIGCHLD:
            break
    for child in reversed(children):
        child.kill()
    return 0


def open_new_volumes(directory: Path, opened: set[str]) -> None:
    """Make directories that the provisioner just made writable for pods of any user.

    The provisioner makes them for root alone (mode 0750), and hostPath volumes take no fsGroup.

    Args:
        directory: Where the volumes lie.
        opened: Names that were seen before; updated.
    """
    present = {entry.name for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False)}
    for name in present - opened:
        with suppress(FileNotFoundError):  # deleted again meanwhile
            (directory / name).chmod(0o777)
    opened.clear()
    opened.update(present)


def _write_state(path: Path, children: list[Child]) -> None:
    parts = {
        child.part.name: {
            "pid": child.process.pid if child.process else None,
            "started": child.started,
            "restarts": child.restarts,
            "exitCode": child.exit_code,
        }
        for child in children
    }
    # Written beside and renamed: a reader never sees half of it.
    scratch = path.with_suffix(".new")
    scratch.write_text(json.dumps(parts, indent=2) + "\n")
    scratch.rename(path)


if __name__ == "__main__":
    sys.exit(main())
