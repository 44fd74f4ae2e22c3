"""`mm-operator run`: parse the settings, then run until SIGTERM."""

import asyncio
import logging
import os
import sys

from mm_operator.assembly import Operator
from mm_operator.errors import ClusterError
from mm_operator.settings import parse_settings
from mm_operator.shutdown import hold_signals
from mm_operator.telemetry.logs import set_up_logs

_LOG = logging.getLogger(__name__)


def main() -> int:
    """Run the operator; return the exit code: 0 after SIGTERM, 1 when a part of it failed."""
    settings = parse_settings(sys.argv[1:], os.environ)
    set_up_logs(settings.log_level)
    hold_signals()
    try:
        asyncio.run(Operator(settings).run())
    except ClusterError as error:
        _LOG.critical("cannot start: %s", error)
        return 1
    except Exception:  # noqa: BLE001  # whatever it is: say so as JSON and exit, kubelet restarts
        _LOG.critical("a part of the operator failed; the next replica takes over", exc_info=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
