"""Inside a container build: put the named commands and a .pth file into the image's venv.

The Dockerfiles call it with the project's pyproject.toml beside it. mm_devcluster.images.code
writes the same files when an image is made without a container engine.
"""

import sys
import sysconfig
import tomllib
from pathlib import Path

VENV = Path("/opt/multimodal/venv")
LIBRARY = "/opt/multimodal/lib"


def main() -> int:
    """Write one script per command name given as argument."""
    document = tomllib.loads(Path(__file__).with_name("pyproject.toml").read_text(encoding="utf-8"))
    scripts = document["project"]["scripts"]
    for name in sys.argv[1:]:
        module, _, function = scripts[name].partition(":")
        path = VENV / "bin" / name
        path.write_text(
            f"#!{VENV}/bin/python\nimport sys\n\nfrom {module} import {function}\n\n"
            # Processes that it spawns import it, and must not start it again.
            f'if __name__ == "__main__":\n    sys.exit({function}())\n',
            encoding="utf-8",
        )
        path.chmod(0o755)
    # Run by the environment's own interpreter.
    packages = Path(sysconfig.get_path("purelib"))
    (packages / "multimodal-operator.pth").write_text(f"{LIBRARY}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
