"""Run the unit tests where nothing else is: no torch, no Triton, no root, no programs of a cluster.

`make unit`. `tests/support/needs.py` says which tests these are. Here they run as on a machine that
has nothing but the Python packages of the operator and the gateway: what a unit test may not need
is hidden from it and from the processes that it starts, so that one that begins to need it fails.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from support.needs import LIBRARIES  # noqa: E402 (tests/ is no package of the distribution)

SECONDS = 90
"""Promised for two idle cores; printed beside what it took, never asserted: machines are busy."""
RUN_SECONDS = 1800
PROGRAMS = frozenset({"containerd", "etcd", "go", "helm", "kubectl", "runc"}) | frozenset(
    {"debootstrap", "ip", "mount", "nsenter", "prometheus", "promtool", "umount", "unshare"}
)
"""What the PATH of a unit test lacks."""
HIDDEN = f"""
import importlib.util
import sys

LIBRARIES = {sorted(LIBRARIES)}

def is_hidden(name):
    return any(f"{{name}}.".startswith(f"{{library}}.") for library in LIBRARIES)

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if is_hidden(name):
            raise ModuleNotFoundError(f"{{name}} is hidden from unit tests", name=name)

def find_spec(name, package=None, look=importlib.util.find_spec):
    # Of what is not installed there is no specification, and nothing is raised.
    return None if is_hidden(name) else look(name, package)

sys.meta_path.insert(0, Hidden())
importlib.util.find_spec = find_spec
"""
"""Text of sitecustomize, which every interpreter imports at its start."""


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of the tests; what it refers to is made in a folder."""
    programs, modules = folder / "bin", folder / "modules"
    programs.mkdir()
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(HIDDEN, encoding="utf-8")
    for directory in ("/usr/bin", "/usr/sbin"):
        for program in Path(directory).iterdir():
            link = programs / program.name
            if program.name not in PROGRAMS and not link.is_symlink():
                link.symlink_to(program)
    # Without caches of compiled code each process that a test starts compiles the project again.
    left_out = ("MM_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {
        **kept,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(programs)]),
        "PYTHONPATH": os.pathsep.join([str(modules), str(ROOT / "tests"), str(ROOT / "tools")]),
        "MM_CACHE_DIR": str(folder / "no-programs"),
        "MM_STATE_DIR": str(folder / "no-clusters"),
    }


def command(arguments: list[str]) -> list[str]:
    """Return what runs pytest, without any right of root's."""
    rights = ["setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
    dropped = rights if os.geteuid() == 0 else []
    return [*dropped, sys.executable, "-m", "pytest", "-p", "support.needs", "--unit", *arguments]


def main(arguments: list[str]) -> int:
    """Run pytest with these arguments and return its exit code."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="unit-") as folder:
        done = subprocess.run(
            command(arguments),
            cwd=ROOT,
            env=environment(Path(folder)),
            check=False,
            timeout=RUN_SECONDS,
        )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"unit tests: {time.monotonic() - began:.0f} s (at most {SECONDS} s on two idle cores),"
        f" {used.ru_utime + used.ru_stime:.0f} s of processor time"
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
