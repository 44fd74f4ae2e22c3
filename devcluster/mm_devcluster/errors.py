"""Errors that a user of the development cluster can act on; everything else is a defect."""


class DevClusterError(Exception):
    """Something the user can change: the message says what is wrong and what to do."""


class MissingRequirementsError(DevClusterError):
    """The machine lacks something; the message lists all of it at once."""

    def __init__(self, missing: tuple[str, ...]) -> None:
        """Remember what is missing, one sentence each."""
        self.missing = missing
        lines = "\n".join(f"  - {item}" for item in missing)
        super().__init__(
            f"this machine cannot run the development cluster. Missing:\n{lines}\n"
            "Either provide these, or use a cluster you already have: make demo CLUSTER=current"
        )


class NotRunningError(DevClusterError):
    """A command needs a running cluster and there is none of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"cluster {name!r} is not running; start it: mm-devcluster up --name {name}"
        )


class AlreadyRunningError(DevClusterError):
    """A cluster of that name runs, with other options than the requested ones."""

    def __init__(self, name: str, difference: str) -> None:
        """Say what differs and how to start over."""
        super().__init__(
            f"cluster {name!r} already runs, but {difference}; "
            f"stop it first (mm-devcluster down --name {name}) or choose another --name"
        )


class PartFailedError(DevClusterError):
    """A part of the cluster did not come up in time; carries the end of its log."""

    def __init__(self, what: str, seconds: float, evidence: str) -> None:
        super().__init__(f"{what} after {seconds:.0f} s\n{evidence}".rstrip())
