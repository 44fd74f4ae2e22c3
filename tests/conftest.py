"""Fixtures that every test folder shares."""

from hypothesis import HealthCheck, settings

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
