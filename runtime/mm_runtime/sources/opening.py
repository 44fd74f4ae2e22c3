"""A remote source from its address."""

from collections.abc import Mapping

from mm_runtime.sources.address import BucketAddress, HubAddress
from mm_runtime.sources.remote import RemoteSource


def open_remote(
    address: HubAddress | BucketAddress, environment: Mapping[str, str]
) -> RemoteSource:
    """Return the source at an address; no request is sent yet."""
    if isinstance(address, HubAddress):
        from mm_runtime.sources.hub import HubSource  # noqa: PLC0415 (a client each, 0.3 s)

        return HubSource(address, environment)
    from mm_runtime.sources.bucket import BucketSource  # noqa: PLC0415 (the same)

    return BucketSource(address, environment)
