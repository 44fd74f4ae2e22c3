"""Sockets of a server on an open port: every address that a pod has, IPv4 and IPv6.

Two sockets instead of one for both: behind one, clients of IPv4 would have other addresses than
before (`::ffff:...`).
"""

import errno
import logging
import socket
from typing import Final

_LOG = logging.getLogger(__name__)

UNSENT_BYTES: Final = 64 * 1024
"""What the kernel takes of an answer before its client reads on. Without it that is megabytes, and
a third of them has to be read before a connection is writable again: a client that reads a megabyte
a second seemed to read nothing for longer than one."""

EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 (compared; callers decide it)
"""What stands for every address, of both families."""
_NO_IPV6: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})
"""What the kernel answers where IPv6 is not built in, or switched off."""


def listening_sockets(address: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on an address; port 0: one that is free for all of them.

    Raises:
        OSError: the port is taken, or the address is none of this machine's.
    """
    if address not in EVERYWHERE:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [_of_tcp(socket.create_server((address, port), family=family))]
    first = _of_tcp(socket.create_server(("0.0.0.0", port)))  # noqa: S104
    try:
        # Without dualstack_ipv6 Python sets IPV6_V6ONLY, so both may have one port.
        second = _of_tcp(
            socket.create_server(("::", first.getsockname()[1]), family=socket.AF_INET6)
        )
    except OSError as error:
        if error.errno in _NO_IPV6:
            port = first.getsockname()[1]
            _LOG.warning("no IPv6 here (%s): port %d listens on IPv4 only", error, port)
            return [first]
        first.close()
        if port == 0 and error.errno == errno.EADDRINUSE:
            return listening_sockets(address, port)  # free for one family only
        raise
    return [first, second]


def _of_tcp(listening: socket.socket) -> socket.socket:
    """Return the same socket, which says that its protocol is TCP.

    asyncio sets TCP_NODELAY on connections whose socket says so, and accepted ones say what the
    listening one does. Without it the second small write of an answer waited for the client's
    delayed acknowledgement: 40 ms before each first token.
    """
    family, kind = listening.family, listening.type
    made = socket.socket(family, kind, socket.IPPROTO_TCP, fileno=listening.detach())
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
    return made
