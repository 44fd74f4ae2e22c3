"""Errors that cross module boundaries of the operator: each carries values, not just a sentence.

The pure packages raise `SpecError` only inside themselves and return it as a decision.
`ClusterError` is raised by `mm_operator.cluster` and becomes a `StageError` of the outcome.

They are not frozen: Python itself writes `__traceback__` and notes into an exception on its way up.
"""

from dataclasses import dataclass


# Not frozen: contextlib sets __traceback__ on exceptions that pass through it.
@dataclass(unsafe_hash=True)
class SpecError(Exception):
    """The user must act: the object, as written, cannot be carried out.

    Raised while a spec is parsed or planned; never retried before the object or a child changes.
    `reason` is a CamelCase word for the condition, `message` says what is wrong, what was expected
    and what to do; `path` is the field in dotted camelCase, empty when no single field is to blame.
    """

    reason: str
    message: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


# Not frozen: contextlib sets __traceback__ on exceptions that pass through it.
@dataclass(unsafe_hash=True)
class ClusterError(Exception):
    """The API server refused or could not be reached.

    `status` is the HTTP status, 0 when there was no answer. Retried with back-off by the queue.
    """

    status: int
    kind: str
    name: str
    message: str

    def __str__(self) -> str:
        answer = f"HTTP {self.status}" if self.status else "no answer"
        return f"{' '.join(filter(None, (self.kind, self.name)))}: {answer}: {self.message}"
