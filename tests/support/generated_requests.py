"""Requests made of an OpenAPI document, most of them of its schemas: the same for a seed."""

import copy
import json
import random
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mm_edge.errors import InvalidRequestError
from mm_runtime.gateway.api import parsing
from support.mutations import STRANGE, changed
from support.schema_checks import Document, Schema, parts_at, steps_of

FORM = "multipart/form-data"
_BOUNDARY = "generated"
_DEEPEST = 6
_OPTIONAL, _OFTEN, _BROKEN, _UNKNOWN, _EDGE = 0.15, 0.4, 0.06, 0.05, 0.1
"""How often a field is there that need not, the same of one that is often there, a request is
changed in one place, a value is not one of the known ones, a number is at a bound."""

_ROUNDS = 8
"""Parts of a request that are taken away until all of it goes together."""

_PARSERS: Mapping[str, Callable[[bytes, str], object]] = {
    "/v1/chat/completions": parsing.parse_chat,
    "/v1/completions": parsing.parse_completion,
    "/v1/responses": parsing.parse_response,
    "/v1/audio/transcriptions": parsing.parse_transcription,
    "/v1/audio/translations": parsing.parse_translation,
}
_TEXTS = ("", "x", "what is it ?", "is", "é" * 40, "a" * 300, "{", "(a|b)*", "\0", "\u2028", "日本")
_NAMED: Mapping[str, Sequence[str]] = {
    "^[a-zA-Z0-9_.-]{1,64}$": ("rain", "b", "a.b-c_1", "A" * 64, "-"),
    "^(0|[1-9][0-9]{0,9})$": ("0", "1", "2", "3"),
    r"\S": ("rain", "a b", "-"),
}
"""Texts that match a pattern."""


@dataclass(frozen=True)
class Generated:
    """One request.

    Attributes:
        value: what the body says.
        schema: of the value.
        broken: it was changed in a place, or is not of the schema for another reason.
    """

    path: str
    content_type: str
    body: bytes
    value: Any
    schema: Schema
    broken: bool


class Generator:
    """Makes requests."""

    def __init__(
        self,
        content: Mapping[str, Any],
        known: Mapping[str, Sequence[Any]],
        seed: int,
        rare: Container[str] = (),
        often: Container[str] = (),
    ) -> None:
        self.document = Document(content)
        self._known = known
        self._rare, self._often = rare, often
        self._chance = random.Random(seed)  # noqa: S311 - a test's choices

    def requests(self, count: int) -> Iterator[Generated]:
        """Yield so many requests to all paths that take a body, one after the other."""
        posts = [
            (path, media, one["schema"])
            for path, methods in self.document.content["paths"].items()
            if "post" in methods
            for media, one in methods["post"]["requestBody"]["content"].items()
        ]
        for number in range(count):
            path, media, schema = posts[number % len(posts)]
            value = copy.deepcopy(self._value(schema, 0))
            _agree(path, media, value)
            broken = self._chance.random() < _BROKEN
            if broken:
                value = changed(value, self._chance)
            broken = broken or not self.document.admits(schema, value)
            kind, body = _encoded(media, value)
            yield Generated(path, kind, body, value, schema, broken)

    def _value(self, schema: Schema, depth: int) -> Any:
        schema, chance = self.document.found(schema), self._chance
        branches = schema.get("anyOf") or schema.get("oneOf")
        if branches and "properties" not in schema:
            others = [one for one in branches if one != {"type": "null"}]
            rare = len(others) < len(branches) and chance.random() < _UNKNOWN
            return None if rare or not others else self._value(self._chosen(others), depth)
        choices = schema.get("enum") or [schema[one] for one in ("const",) if one in schema]
        return chance.choice(choices) if choices else self._typed(schema, depth)

    def _chosen(self, branches: Sequence[Schema]) -> Schema:
        usual = [one for one in branches if one.get("$ref", "").split("/")[-1] not in self._rare]
        rare = not usual or self._chance.random() < _UNKNOWN
        return self._chance.choice(branches if rare else usual)

    def _typed(self, schema: Schema, depth: int) -> Any:
        chance = self._chance
        makers: dict[str | None, Callable[[], Any]] = {
            "object": lambda: self._object(schema, depth),
            "array": lambda: self._array(schema, depth),
            "string": lambda: self._text(schema),
            "integer": lambda: self._number(schema),
            "number": lambda: self._number(schema),
            "boolean": lambda: chance.random() < 0.5,
            "null": lambda: None,
            None: lambda: copy.deepcopy(chance.choice((None, 1, "x", {}, [], *STRANGE[:5]))),
        }
        return makers[schema.get("type")]()

    def _text(self, schema: Schema) -> str:
        if "pattern" in schema:
            return self._chance.choice(_NAMED[schema["pattern"]])
        least, most = schema.get("minLength", 0), schema.get("maxLength", 300)
        return self._chance.choice([one[:most] for one in _TEXTS if len(one) >= least])

    def _number(self, schema: Schema) -> Any:
        """Return one of the bounds, or one of few from the lower bound on."""
        integral = schema["type"] == "integer"
        step = 1 if integral else 1e-3
        low = schema.get("minimum", schema.get("exclusiveMinimum", -3))
        high = schema.get("maximum", schema.get("exclusiveMaximum", low + 100))
        bounds = (
            low if "exclusiveMinimum" not in schema else low + (step if integral else 5e-324),
            high if "exclusiveMaximum" not in schema else high - step,
        )
        if self._chance.random() < _EDGE:
            return self._chance.choice(bounds)
        if integral:
            return self._chance.randint(bounds[0], min(bounds[1], max(bounds[0], 0) + 6))
        return round(self._chance.uniform(low + step, min(high, max(low, 0) + 3)), 3)

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        chance, made = self._chance, dict[str, Any]()
        required = schema.get("required", ())
        properties = schema.get("properties", {})
        for name, one in properties.items():
            share = _OFTEN if name in self._often else _OPTIONAL
            if name in required or (depth < _DEEPEST and chance.random() < share):
                made[name] = self._field(name, one, depth)
        more = schema.get("additionalProperties")
        if more and depth < _DEEPEST:
            named = schema.get("propertyNames", {})
            for _ in range(chance.randrange(3)):
                name = self._text(named) if "pattern" in named else chance.choice("abc")
                made[name] = self._value({} if more is True else more, depth + 1)
        return made

    def _field(self, name: str, schema: Schema, depth: int) -> Any:
        known = [one for one in self._known.get(name, ()) if self.document.admits(schema, one)]
        if known and self._chance.random() > _UNKNOWN:
            return copy.deepcopy(self._chance.choice(known))
        return self._value(schema, depth + 1)

    def _array(self, schema: Schema, depth: int) -> list[Any]:
        least, most = schema.get("minItems", 0), schema.get("maxItems", 3)
        count = self._chance.randint(least, max(least, min(most, 0 if depth > _DEEPEST else 3)))
        return [self._value(schema.get("items", {}), depth + 1) for _ in range(count)]


def _encoded(media: str, value: Any) -> tuple[str, bytes]:
    return form(value) if media == FORM else (media, json.dumps(value).encode())


def _agree(path: str, media: str, value: Any) -> None:
    """Take away the parts that refusals name: schemas do not state which fields go together."""
    for _ in range(_ROUNDS):
        kind, body = _encoded(media, value)
        try:
            _PARSERS[path](body, kind)
        except InvalidRequestError as error:
            _remove(value, error.param or "")
        else:
            return


def _remove(value: Any, param: str) -> None:
    """Remove a part, or that which holds it where it is not there."""
    held: tuple[Any, str | int] | None = None
    for at in steps_of(param):
        found = parts_at(value, at)
        if not found:
            break
        held, (value,) = (value, at), found
    if held is not None:
        del held[0][held[1]]


def form(value: Any) -> tuple[str, bytes]:
    """Return a form of an object's fields, its type first; anything else is one field.

    A form has no null: such a field is absent. Items of a list are fields of their own.
    """
    fields = value if isinstance(value, dict) else {"file": value}
    parts = []
    for name, one in fields.items():
        if one is None:
            continue
        several = one if isinstance(one, list) else [one]
        named = f"{name}[]" if isinstance(one, list) else name
        file = '; filename="a.wav"' if name == "file" else ""
        parts += [
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{named}"{file}\r\n\r\n'.encode(
                errors="replace"
            )
            + _content(item)
            + b"\r\n"
            for item in several
        ]
    body = b"".join(parts) + f"--{_BOUNDARY}--\r\n".encode()
    return f"{FORM}; boundary={_BOUNDARY}", body


def _content(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    text = value if isinstance(value, str) else json.dumps(value, default=repr)
    return text.encode(errors="replace")
