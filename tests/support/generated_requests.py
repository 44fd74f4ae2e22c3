"""Requests made of an OpenAPI document, most of them nearly right: the same for a seed."""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from support.mutations import STRANGE

FORM = "multipart/form-data"
_BOUNDARY = "generated"
_DEEPEST = 6
_STRANGE, _LEFT_OUT, _OPTIONAL = 0.02, 0.01, 0.25
"""How often a value is none of its type, a field is missing that must be there, one is there that
need not."""

_TEXTS = ("", "x", "what is it ?", "<image>", "</s>", "\0", "é" * 40, "a" * 300, "{", "(a|b)*")
_NUMBERS = (0, 1, -1, 2, 16, 0.5, 1e308, -1e308, 2**31, 2**63, 2**64)


@dataclass(frozen=True)
class Generated:
    """One request."""

    path: str
    content_type: str
    body: bytes


class Generator:
    """Makes requests.

    Args:
        document: as `/openapi.json` has it.
        known: field -> a value that means something to the server, such as the model's name.
        seed: of all choices.
    """

    def __init__(self, document: Mapping[str, Any], known: Mapping[str, Any], seed: int) -> None:
        self._document = document
        self._known = known
        self._chance = random.Random(seed)  # noqa: S311 - a test's choices

    def requests(self, count: int) -> Iterator[Generated]:
        """Yield so many requests to all paths that take a body."""
        posts = [
            (path, media, one["schema"])
            for path, methods in self._document["paths"].items()
            if "post" in methods
            for media, one in methods["post"]["requestBody"]["content"].items()
        ]
        for number in range(count):
            path, media, schema = posts[number % len(posts)]
            value = self._value(schema, 0)
            if media != FORM:
                yield Generated(path, media, json.dumps(value).encode())
            else:
                yield Generated(path, f"{FORM}; boundary={_BOUNDARY}", _form(value))

    def _value(self, schema: Mapping[str, Any], depth: int) -> Any:
        chance = self._chance
        if chance.random() < _STRANGE:
            return chance.choice(STRANGE)
        if "$ref" in schema:
            return self._value(self._found(schema["$ref"]), depth)
        branches = schema.get("anyOf") or schema.get("oneOf")
        if branches:
            return self._value(chance.choice(branches), depth)
        choices = schema.get("enum") or [schema[one] for one in ("const",) if one in schema]
        return chance.choice(choices) if choices else self._typed(schema, depth)

    def _typed(self, schema: Mapping[str, Any], depth: int) -> Any:
        """Return a value of a plain type; of no type any."""
        chance = self._chance
        makers: dict[str, Callable[[], Any]] = {
            "object": lambda: self._object(schema, depth),
            "array": lambda: self._array(schema, depth),
            "string": lambda: chance.choice(_TEXTS)[: schema.get("maxLength", 300)],
            "integer": lambda: self._number(schema, integer=True),
            "number": lambda: self._number(schema, integer=False),
            "boolean": lambda: chance.random() < 0.5,
            "null": lambda: None,
        }
        kind = schema.get("type")
        return makers[kind]() if kind else chance.choice((None, 1, "x", {}, []))

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        chance, made = self._chance, {}
        required = schema.get("required", ())
        for name, one in schema.get("properties", {}).items():
            share = 1 - _LEFT_OUT if name in required else _OPTIONAL
            if chance.random() > share or (depth > _DEEPEST and name not in required):
                continue
            is_known = name in self._known and chance.random() > _STRANGE
            made[name] = self._known[name] if is_known else self._value(one, depth + 1)
        more = schema.get("additionalProperties")
        if isinstance(more, Mapping) and depth < _DEEPEST:
            for _ in range(chance.randrange(3)):
                made[chance.choice(("1", "2", "a", "-1"))] = self._value(more, depth + 1)
        if chance.random() < _LEFT_OUT:
            made[chance.choice(("x", "", "model "))] = chance.choice(STRANGE)
        return made

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        least = schema.get("minItems", 0)
        count = least if depth > _DEEPEST else max(least, self._chance.randrange(4))
        return [self._value(schema.get("items", {}), depth + 1) for _ in range(count)]

    def _number(self, schema: Mapping[str, Any], *, integer: bool) -> float:
        bounds = [
            schema[name] + step
            for name, steps in (("minimum", (0, 1, -1)), ("maximum", (0, -1, 1)))
            if name in schema
            for step in steps
        ]
        number: float = self._chance.choice([*bounds, *bounds, 1, *_NUMBERS])
        return int(number) if integer and abs(number) < 2**70 else number

    def _found(self, reference: str) -> Mapping[str, Any]:
        found: Any = self._document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        assert isinstance(found, Mapping)
        return found


def _form(value: Any) -> bytes:
    """Return a form of an object's fields; anything else is one field."""
    fields = value if isinstance(value, dict) else {"file": value}
    parts = [
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode(
            errors="replace"
        )
        + (one if isinstance(one, str) else json.dumps(one)).encode(errors="replace")
        + b"\r\n"
        for name, one in fields.items()
    ]
    return b"".join(parts) + f"--{_BOUNDARY}--\r\n".encode()
