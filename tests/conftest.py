"""Fixtures that every test folder shares."""

from hypothesis import settings

pytest_plugins = [
    "support.clusters",
    "support.golden",
    "support.installed",
    "support.lanes",
    "support.s3_server",
]

# A deadline for one example would assert a duration, which a busy machine misses now and then.
settings.register_profile("ours", deadline=None)
settings.load_profile("ours")
