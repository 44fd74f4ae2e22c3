"""PromQL as text: metric names in an expression, and what Grafana puts in place of variables."""

import re

_NAME = re.compile(r"(?<![\w:$\"./])([a-zA-Z_:][a-zA-Z0-9_:]*)(?![\w:]|\s*\()")
_WORDS = frozenset(
    {"by", "on", "and", "or", "unless", "without", "ignoring", "group_left", "group_right"}
    | {"offset", "bool"}
)
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_MATCHERS = re.compile(r"\{[^}]*\}")
_WINDOW = re.compile(r"\[[^\]]*\]|\boffset\s+\w+")
_NUMBER = re.compile(r"\b\d+(?:\.\d+)?(?:e\d+)?\b")

VARIABLES = {"$__rate_interval": "1m", "$__range": "1h", "$namespace": ".+", "$model": ".+"}


def substituted(expression: str) -> str:
    """Return an expression of a dashboard as Grafana sends it when everything is chosen."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def metrics_in(expression: str) -> set[str]:
    """Return the names of metrics in an expression: what is no function, word or label."""
    text = _QUOTED.sub('""', expression)
    for pattern in (_MATCHERS, _WINDOW, _GROUPING, _NUMBER):
        text = pattern.sub(" ", text)
    return {name for name in _NAME.findall(text) if name not in _WORDS}
