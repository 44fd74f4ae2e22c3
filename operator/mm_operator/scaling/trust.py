"""How https of a Prometheus is trusted."""

import ssl
import tempfile
from functools import cache
from pathlib import Path

from mm_operator.scaling.answers import MetricsError
from mm_operator.scaling.prometheus import Endpoint


def trust(endpoint: Endpoint) -> ssl.SSLContext:
    """Return how https is trusted, with our own certificate where there is one.

    Raises:
        MetricsError: a certificate is damaged.
    """
    if not (endpoint.ca or endpoint.certificate or endpoint.insecure):
        return _of_the_image()
    if not endpoint.certificate:
        return _context(endpoint)
    with tempfile.TemporaryDirectory() as folder:  # mode 0700, gone before the first query
        file = Path(folder) / "client.pem"
        file.write_text(f"{endpoint.certificate}\n{endpoint.key}\n")
        return _context(endpoint, str(file))


@cache
def _of_the_image() -> ssl.SSLContext:
    # To read all public authorities takes 20 ms of a core.
    return ssl.create_default_context()


def _context(endpoint: Endpoint, key_file: str = "") -> ssl.SSLContext:
    # Authorities may be texts; the library reads our own certificate and its key from files only.
    try:
        context = ssl.create_default_context(cadata=endpoint.ca or None)
        if key_file:
            context.load_cert_chain(key_file)
    except (ssl.SSLError, ValueError) as error:
        raise MetricsError(
            "a certificate of Prometheus' Secret cannot be read: it must be PEM, the key beside it"
        ) from error
    if endpoint.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
