"""Which reason of an inspection each failure of a source has."""

from collections.abc import Iterator
from contextlib import contextmanager

from mm_api.documents.model_facts import InspectReason
from mm_runtime.errors import (
    InspectInterruptedError,
    InspectRefusedError,
    PermanentError,
    SourceDeniedError,
    SourceUnavailableError,
    SourceUntrustedError,
)


@contextmanager
def with_reasons(otherwise: InspectReason) -> Iterator[None]:
    """Raise failures of a source as those of an inspection; `otherwise`: the reason of all others.

    Raises:
        InspectRefusedError: another try would end the same way.
        InspectInterruptedError: the server does not answer now.
    """
    try:
        yield
    except InspectRefusedError:
        raise
    except SourceUnavailableError as error:
        raise InspectInterruptedError(InspectReason.SOURCE_UNAVAILABLE, str(error)) from error
    except SourceDeniedError as error:
        raise InspectRefusedError(InspectReason.SOURCE_DENIED, str(error)) from error
    except SourceUntrustedError as error:
        raise InspectRefusedError(InspectReason.SOURCE_UNTRUSTED, str(error)) from error
    except PermanentError as error:
        raise InspectRefusedError(otherwise, str(error)) from error
