"""Check whether what a part depends on answers yet."""

import socket
import ssl
import urllib.error
import urllib.request

from mm_devcluster.supervisor.spec import Gate

PROBE_TIMEOUT = 1.0  # seconds; short, because the supervisor does nothing else meanwhile


def is_open(gate: Gate) -> bool:
    """Return whether a gate's target answers now."""
    try:
        if gate.kind == "https":
            return _answers(gate)
        if gate.kind == "unix":
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(PROBE_TIMEOUT)
                probe.connect(gate.target)
        else:
            host, _, port = gate.target.rpartition(":")
            socket.create_connection((host, int(port)), timeout=PROBE_TIMEOUT).close()
    except OSError:
        return False
    return True


def _answers(gate: Gate) -> bool:
    context = ssl.create_default_context(cafile=gate.authority)
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(gate.target, timeout=PROBE_TIMEOUT) as answer:
            return bool(answer.status == 200)  # noqa: PLR2004 - HTTP OK
    except urllib.error.HTTPError as error:
        error.close()
        return False
