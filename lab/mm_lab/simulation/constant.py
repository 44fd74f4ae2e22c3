"""The policy that every other is compared with: a constant."""

from mm_lab.simulation.run import View


class Constant:
    """The same number of replicas at all times."""

    tick_seconds = 60

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas

    def replicas(self, _: View) -> int:
        """Return the constant."""
        return self._replicas
