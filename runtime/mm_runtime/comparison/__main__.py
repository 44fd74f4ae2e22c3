"""The process of `mm-runtime compare`: reads documents, prints the report, returns an exit code."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from mm_api.contract import ExitCode, Flag
from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.base.documents import read_document
from mm_runtime.base.termination import write_termination_message
from mm_runtime.comparison.compare import CompareOptions, compared
from mm_runtime.errors import RuntimeCommandError

log = logging.getLogger("mm_runtime.comparison")


def main(argv: Sequence[str] | None = None) -> int:
    """Compare and return the exit code; an error is in the termination message, too."""
    parser = argparse.ArgumentParser(description=compared.__doc__)
    parser.add_argument(Flag.MANIFEST, type=Path, required=True)
    parser.add_argument(Flag.SERVING, type=Path, required=True)
    parser.add_argument(Flag.URL, required=True)
    parser.add_argument(Flag.CHECKPOINT, type=Path)
    parser.add_argument(Flag.AUTH_TOKEN_FILE, type=Path)
    parser.add_argument(Flag.TERMINATION_LOG, type=Path)
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        text, code = _report(arguments), ExitCode.OK
    except (RuntimeCommandError, OSError) as error:
        text, code = str(error), getattr(error, "exit_code", ExitCode.RETRY)
        log.error("%s", text)  # noqa: TRY400 (the message is written for a person)
    else:
        sys.stdout.write(f"{text}\n")
    write_termination_message(arguments.termination_log, text)
    return code


def _report(arguments: argparse.Namespace) -> str:
    return compared(
        CompareOptions(
            manifest=read_document(EngineManifest, arguments.manifest),
            directory=arguments.manifest.parent,
            serving=read_document(ServingPlan, arguments.serving),
            url=arguments.url,
            checkpoint=arguments.checkpoint,
            token=_token(arguments.auth_token_file),
        )
    ).to_json()


def _token(file: Path | None) -> str:
    lines = file.read_text(encoding="utf-8").split("\n") if file else []
    return next((line.split()[-1] for line in lines if line.strip()), "")


if __name__ == "__main__":
    sys.exit(main())
