"""The encoder's share of what answers need too: processor cores, and a GPU through CUDA's MPS.

An image is seconds of a core; each token of a running answer needs a core of its pod five times,
for a millisecond in all (engine, server, postprocessing, server, gateway), and with equal shares it
waits each time until the encoder's turn is over.
"""

import os
from collections.abc import Mapping

LATER = 10
"""Added to a thread's niceness: a tenth of the share of an ordinary one that wants the same core,
sched(7), and all idle time. So images come to their end on a full machine."""

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


def lower_priority() -> None:
    """Let every other thread of the pod go before this one and those that it starts from now.

    Threads that run already stay as they are: one of them reports to Triton that the process lives,
    and Triton refuses the requests of a process that is late with that; another one passes on what
    needs no encoder.
    """
    os.nice(LATER)


def limit_this_process(parameters: Mapping[str, str]) -> None:
    """Take the share of threads that a model's configuration gives it, below others' kernels.

    To be called before CUDA is first used in the process: share and priority are read then, and
    never again. Where no MPS daemon runs, CUDA does not look at them.
    """
    share = parameters.get(PARAMETER)
    if share:
        os.environ[PERCENTAGE] = share
        os.environ[PRIORITY] = BELOW_NORMAL
