"""Fixtures that every test folder shares."""

import os
import ssl
import sys
from functools import cache
from pathlib import Path
from typing import Any

import certifi
from hypothesis import HealthCheck, settings

# Each process that tests start would compile the project again, a fifth of a second of a core.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Builders and their steps are forked (support.fork). gRPC's handlers abort a fork that forks again
# once a thread of this process was calling into gRPC.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
# Threads of torch that wait actively take the cores of other lanes: a fifth of a tiny server's
# processor time.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

pytest_plugins = [
    "support.clusters",
    "support.families.servers",
    "support.golden",
    "support.installed",
    "support.lanes",
    "support.model_namespace",
    "support.s3_server",
    "support.temporary",
    "support.tiny_servers",
]

PUBLIC = 100_000
"""A bundle of so many bytes holds the public authorities, a test's own holds one."""
_new_context = ssl.create_default_context


@cache
def _public(authorities: str) -> ssl.SSLContext:
    return _new_context(cafile=authorities)


def _context(*arguments: Any, **options: Any) -> ssl.SSLContext:
    """Read the public authorities once: it takes 30 ms of a core, and each client does it."""
    bundle = os.environ.get("SSL_CERT_FILE") or certifi.where()
    if not arguments and options == {"cafile": bundle} and Path(bundle).stat().st_size > PUBLIC:
        return _public(bundle)
    return _new_context(*arguments, **options)


ssl.create_default_context = _context

# A deadline for one example, or for making ten, would assert a duration, which a busy machine
# misses now and then. The same examples each time: a change is judged by itself, not by luck. New
# ones, and many: pytest --hypothesis-profile=explore, which is a suite of make nightly.
settings.register_profile(
    "explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=1000
)
settings.register_profile(
    "ours",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    max_examples=50,
)
settings.load_profile("ours")
