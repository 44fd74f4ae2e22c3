"""The end of a model's process with its server's."""

import os
import select
import signal
import threading


def end_with(pid: int) -> None:
    """End this process with another one, at once, also where no one has reaped that one yet.

    Triton's own check, every 0.3 s, takes such a server for a running one, and then leaves by the
    exit handlers of all libraries beside their threads, where processes have hung. A parent-death
    signal is no help: it comes with the end of the server's thread that started the model.

    Args:
        pid: of a process; nothing is watched when it has gone, nor where the kernel has no
            descriptors of processes (sandboxes): Triton's check is left there.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return

    def wait() -> None:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        ended.poll()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name=f"end-with-{pid}", daemon=True).start()
