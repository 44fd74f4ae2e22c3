"""``python -m mm_devcluster``: the same as the command ``mm-devcluster``."""

import sys

from mm_devcluster.cli import main

if __name__ == "__main__":
    sys.exit(main())
