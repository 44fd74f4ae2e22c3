"""`mmctl version`: which release this is."""

import argparse

from mm_api import labels
from mm_api.v1alpha1.definition import RELEASE


def configure(_parser: argparse.ArgumentParser) -> None:
    pass


def run(_options: argparse.Namespace) -> int:
    print(f"mmctl {RELEASE}, {labels.API_VERSION}")
    return 0
