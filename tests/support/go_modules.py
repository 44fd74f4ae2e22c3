"""Files of the Go modules that programs of tests are made of."""

import json
import subprocess
from pathlib import Path

from mm_devcluster.paths import go_modules_dir

SECONDS = 240.0


def module_folder(program: str, module: str) -> Path:
    reported = subprocess.run(
        ["go", "mod", "download", "-json", module],
        cwd=go_modules_dir() / program,
        check=True,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    ).stdout
    return Path(json.loads(reported)["Dir"])
