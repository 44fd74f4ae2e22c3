"""Files of checkpoints are UTF-8, whatever the locale: Triton's stubs run in the C locale."""

import os
import subprocess
import sys

from support.tiny_t5 import CHECKPOINT

LOAD = (
    "import pathlib, sys; from mm_runtime.serving.prompts.tokens import TextCodec;"
    "codec = TextCodec(pathlib.Path(sys.argv[1]));"
    "assert codec.decode([codec.id_of('gr\\u00fcne')]) == 'gr\\u00fcne'"
)


def test_a_tokenizer_with_umlauts_loads_in_the_c_locale() -> None:
    """Python's own way out (PEP 538 and 540) is closed here, as it is in an embedded Python."""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-X", "utf8=0", "-c", LOAD, str(CHECKPOINT)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
