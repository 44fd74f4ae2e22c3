"""`mm-router`: parse the settings, then route until SIGTERM."""

import asyncio
import logging
import sys

from mm_api.json_logs import JsonFormatter
from mm_operator.errors import ClusterError
from mm_router.assembly import run
from mm_router.settings import parse_settings

_LOG = logging.getLogger(__name__)


def main() -> int:
    """Run the router; return the exit code: 0 after a clean drain, 1 otherwise."""
    settings = parse_settings(sys.argv[1:])
    _set_up_logs(settings.log_level)
    try:
        return 0 if asyncio.run(run(settings)) else 1
    except (ClusterError, OSError, ValueError) as error:
        _LOG.critical("cannot start: %s", error)
    except Exception:  # noqa: BLE001  # whatever it is: say so as JSON and exit, kubelet restarts
        _LOG.critical("a part of the router failed", exc_info=True)
    return 1


def _set_up_logs(level: str) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in ("uvicorn", "aiohttp", "asyncio", "kubernetes"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # A warning for each connection that sends no HTTP: port scans would fill the log.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


if __name__ == "__main__":
    sys.exit(main())
