"""The encoder's share of processor cores, where it computes on those that answers need too.

What `gpu_share` does on a GPU. A picture is seconds of a core; each token of a running answer needs
a core of its pod five times, for a millisecond in all (engine, server, postprocessing, server,
gateway), and with equal shares it waits each time until the encoder's turn is over.
"""

import os
from pathlib import Path

LATER = 10
"""Added to the process's niceness: a tenth of the share of an ordinary one that wants the same
core, sched(7), and all that nobody else wants. So pictures come to their end on a full machine."""

_LEAST = 19


def give_way() -> None:
    """Let every other process of the pod go first, on behalf of all threads of this one.

    A thread inherits its niceness from the thread that starts it; Triton's stub has some already.
    """
    for task in Path("/proc/self/task").iterdir():
        thread = int(task.name)
        now = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, min(now + LATER, _LEAST))
