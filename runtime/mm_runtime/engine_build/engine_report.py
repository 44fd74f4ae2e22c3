"""What verify-engines compared."""

from mm_api.base import Document


class EngineReport(Document):
    """Engines that agree with each other and with the plan."""

    engines: list[str]
