"""Fixtures that every test folder shares."""

import os
import sys

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
