"""`mmctl version`: which release this is."""

import argparse
import platform
from importlib.metadata import PackageNotFoundError, version

from mm_api import labels


def configure(_parser: argparse.ArgumentParser) -> None:
    pass


def run(_options: argparse.Namespace) -> int:
    print(f"mmctl {installed()}, {labels.API_VERSION}, Python {platform.python_version()}")
    return 0


def installed() -> str:
    """Return the version of the wheel, or of the checkout."""
    try:
        return version("mmctl")
    except PackageNotFoundError:
        return version("multimodal-operator")
