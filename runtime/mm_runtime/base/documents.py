"""Documents of the operator's, mounted as files: read, compared with what was expected, parsed."""

import logging
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_api.sentences import a
from mm_runtime.errors import PermanentError, PlanChangedError

DocumentT = TypeVar("DocumentT", BuildPlan, EngineManifest, ServingPlan)


def read_document(kind: type[DocumentT], path: Path, expected: str | None = None) -> DocumentT:
    """Return a document of the operator's.

    `expected`: SHA-256 of the file, 64 hex digits; None: not compared.

    Raises:
        PermanentError: the file is missing or is not that document.
        PlanChangedError: the file is another one than expected.
    """
    try:
        content = path.read_bytes()
        found = sha256(content).hexdigest()
        if expected is not None and found != expected:
            raise PlanChangedError(
                f"{path} is not the plan that this Job was made for: sha256 {found}; expected"
                f" {expected}. Its ConfigMap was changed; the operator writes its own plan"
                " there with the next Job."
            )
        return kind.from_json(content)
    except FileNotFoundError as error:
        raise PermanentError(f"{path} does not exist; expected {a(kind.__name__)}.") from error
    except ValidationError as error:
        raise PermanentError(f"{path} is not {a(kind.__name__)}: {first_of(error)}.") from error


def first_of(error: ValidationError) -> str:
    """Return the place of a document's first error, and what is wrong there."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the document"
    return f"{where}: {first['msg']}"


log = logging.getLogger(__name__)


def write_termination_message(path: Path | None, text: str) -> None:
    """Write the message, when there is a file for it; a failure is logged, never raised.

    The kubelet mounts the file alone, so it is written in place: a rename would replace the mount.
    """
    if path is None:
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        log.error("the termination message cannot be written to %s: %s", path, error.strerror)  # noqa: TRY400
