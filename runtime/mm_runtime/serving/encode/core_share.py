"""The encoder's share of processor cores, where it computes on those that answers need too.

What `gpu_share` does on a GPU. An image is seconds of a core; each token of a running answer needs
a core of its pod five times, for a millisecond in all (engine, server, postprocessing, server,
gateway), and with equal shares it waits each time until the encoder's turn is over.
"""

import os

LATER = 10
"""Added to a thread's niceness: a tenth of the share of an ordinary one that wants the same core,
sched(7), and all idle time. So images come to their end on a full machine."""


def lower_priority() -> None:
    """Let every other thread of the pod go before this one and those that it starts from now.

    Threads that run already stay as they are: one of them reports to Triton that the process lives,
    and Triton refuses the requests of a process that is late with that; another one passes on what
    needs no encoder.
    """
    os.nice(LATER)
