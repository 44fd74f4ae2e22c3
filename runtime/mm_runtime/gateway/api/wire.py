"""What every wire type is: nothing but its own fields is read, and null is what is absent."""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from types import NoneType
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, core_schema

from mm_runtime.gateway.api.schema_rules import NULL, Rule, any_of
from mm_runtime.gateway.api.unused import HINTS, KNOWN, is_unused


def _state_rules(schema: dict[str, Any], kind: type[Any]) -> None:
    """Write the rules of a type, and of those that it is made of, into its JSON schema."""
    rules = [rule for one in kind.__mro__ for rule in vars(one).get("rules", ())]
    if rules:
        schema["allOf"] = rules
    if kind.made:
        schema["required"] = [one for one in schema["required"] if one not in kind.made]
    fields = schema.setdefault("properties", {})
    for name, field in kind.model_fields.items():
        if field.annotation is NoneType and (values := KNOWN.get(name)):
            fields[name] = {"enum": [None, *values]}
    for name, values in kind.others.items():
        fields.setdefault(name, {"enum": [None, *values]})
    for name in () if kind.is_form else HINTS:
        fields.setdefault(name, any_of({"type": "object"}, NULL))
    schema["additionalProperties"] = NULL


class Wire(BaseModel):
    """What a request holds; nothing else is read."""

    model_config = ConfigDict(
        extra="allow", frozen=True, allow_inf_nan=False, json_schema_extra=_state_rules
    )

    rules: ClassVar[Sequence[Rule]] = ()
    """Rules of fields that depend on each other, for the OpenAPI document."""

    made: ClassVar[Sequence[str]] = ()
    """Fields that are made where they are absent."""

    others: ClassVar[Mapping[str, tuple[object, ...]]] = {}
    """Fields that are none of its own, and may have these values besides null."""

    is_form: ClassVar[bool] = False
    """Whether all of its fields are text: a form has no hints, which are objects."""

    @model_validator(mode="after")
    def _nothing_else(self) -> Self:
        """Refuse fields that are not known here and would change something elsewhere."""
        extra = self.__pydantic_extra__
        if not extra:
            return self
        wrong = [
            InitErrorDetails(type="extra_forbidden", loc=(name,), input=None)
            for name, value in extra.items()
            if not is_unused(value, self.others.get(name, ()))
            and not (name in HINTS and isinstance(value, dict))
        ]
        if wrong:
            raise ValidationError.from_exception_data(type(self).__name__, wrong)
        extra.clear()
        return self


class ReadAs:
    """Annotates a field with other spellings that are read, and what the document says of them."""

    def __init__(self, read: Callable[[Any], Any], others: Rule) -> None:
        self._read, self._others = read, others

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return dict(any_of(handler(schema), self._others))


class NullIs(ReadAs):
    """Annotates a field whose null is its default: some SDKs write what was left out as null."""

    def __init__(self, default: object) -> None:
        super().__init__(lambda value: default if value is None else value, NULL)


def in_json(content: dict[str, Any]) -> dict[str, Any]:
    """Return an object all of whose numbers JSON can write: `1e999` is read as infinity."""
    left: list[object] = [content]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, float) and not isfinite(value):
            message = f"holds {value}, which JSON cannot write: send a finite number, or a text"
            raise ValueError(message)
    return content


JsonObject = Annotated[dict[str, Any], AfterValidator(in_json)]
"""An object of a client's own names: a schema, variables of a template."""


def form(value: object) -> str:
    """Return the branch of a union of a text and a list, which its errors name."""
    return "<parts>" if isinstance(value, list) else "<string>"


def form_or_null(value: object) -> str:
    return "<null>" if value is None else form(value)
