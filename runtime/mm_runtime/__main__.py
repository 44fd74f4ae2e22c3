"""`python -m mm_runtime`, the same as `mm-runtime`."""

import sys

from mm_runtime.cli import main

if __name__ == "__main__":
    sys.exit(main())
