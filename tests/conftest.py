"""Fixtures that every test folder shares."""

import os
import sys

from hypothesis import HealthCheck, settings

# Each process that tests start would compile the project again, a fifth of a second of a core.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

pytest_plugins = [
    "support.clusters",
    "support.golden",
    "support.installed",
    "support.lanes",
    "support.s3_server",
]

# A deadline for one example, or for making ten, would assert a duration, which a busy machine
# misses now and then. The same examples each time: a change is judged by itself, not by luck. New
# ones: pytest --hypothesis-profile=explore.
settings.register_profile(
    "explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=1000
)
settings.register_profile(
    "ours", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("ours")
