"""A process's share of a GPU that several processes use through CUDA's MPS."""

import os
from collections.abc import Mapping

PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
"""NVIDIA, "Multi-Process Service": read by a client before its first use of CUDA."""

PARAMETER = "mps_thread_percentage"
"""Of a model's config.pbtxt."""


def limit_this_process(parameters: Mapping[str, str]) -> None:
    """Take the share of threads that a model's configuration gives it; nothing without one.

    To be called before CUDA is first used in the process: the share is read then, and never again.
    Where no MPS daemon runs, CUDA does not look at it.
    """
    share = parameters.get(PARAMETER)
    if share:
        os.environ[PERCENTAGE] = share
