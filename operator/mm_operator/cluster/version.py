"""Which Kubernetes this is, for fields that only newer ones know."""

import logging
import re

import aiohttp
from kubernetes.aio.client import ApiClient, ApiException, VersionApi

_LOG = logging.getLogger(__name__)
_SECONDS = 10.0


async def minor_version(api: ApiClient) -> int:
    """Return the minor version of the API server; 0 when it does not say, which means an old one.

    A server that cannot be reached now is no reason to end: everything else waits for it too.
    """
    try:
        code = await VersionApi(api).get_code(_request_timeout=_SECONDS)
    except (ApiException, aiohttp.ClientError, TimeoutError, OSError) as error:
        _LOG.warning("the version of the API server is not known (%s)", type(error).__name__)
        return 0
    digits = re.match(r"\d+", str(code.minor))
    return int(digits[0]) if digits else 0
