"""YAML as kubectl reads it, so that `mmctl validate` and the API server see the same values.

kubectl reads YAML 1.1 with go-yaml 2 (its resolve.go): `y` and `n` are booleans there and text to
PyYAML; `12:30` and `2026-01-02` are text there, and a number and a date to PyYAML.
"""

import re
from collections.abc import Hashable
from typing import Any

import yaml


def load_all(text: str) -> list[Any]:
    """Return a text's documents; yaml.YAMLError: it is no YAML, or a mapping has a key twice."""
    return list(yaml.load_all(text, Loader=_Loader))


class _Loader(yaml.SafeLoader):
    """A SafeLoader with the implicit types of go-yaml 2, which refuses a repeated key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 (PyYAML's)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the mapping has the key {key.value} twice", key.start_mark
                )
            seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


_KEPT = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge", "tag:yaml.org,2002:value")
_WORDS = {
    spelt: means
    for means, names in ((True, ("y", "yes", "on", "true")), (False, ("n", "no", "off", "false")))
    for name in names
    for spelt in (name, name.capitalize(), name.upper())
}
_Loader.yaml_implicit_resolvers = {
    first: [one for one in resolvers if one[0] in _KEPT]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(rf"^(?:{'|'.join(_WORDS)})$"), list("yYnNtTfFoO")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)
_Loader.add_constructor("tag:yaml.org,2002:bool", lambda _, node: _WORDS[node.value])
