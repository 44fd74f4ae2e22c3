"""Whether a server's certificate is trusted, and what to do where it is not."""

import ssl
from typing import Final

TRUST: Final = (
    "put the authority that signed it into a ConfigMap, and name that in "
    "spec.network.caBundle.configMapName (network.caBundle of the chart for every model)"
)


def is_untrusted(error: BaseException) -> bool:
    """Return whether an error of a client was caused by a certificate that it does not trust."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return False
