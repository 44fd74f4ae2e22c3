"""jinja2's sandbox with bounds: the turns of a template and the texts that it makes are counted.

A template may repeat a text, or count, as often as it likes or as a client's variables say. What
can make much of little is looked at before it is done.
"""

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from types import GeneratorType
from typing import Any, Final, TypeVar

from jinja2 import nodes, pass_context
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import TemplateRuntimeError
from jinja2.runtime import Context, str_join
from jinja2.sandbox import ImmutableSandboxedEnvironment

MOST_BYTES = 128 << 20
"""All texts and lists of one prompt: a conversation of 1 MB makes about 6 MB of them."""

MOST_TURNS = 200_000
"""Loops, calls and filters of one prompt: published templates take about 20 for a message."""

_SOON_BYTES, _SOON_TURNS = 256 << 10, 400
"""The same of a prompt that is written on an event loop: a millisecond."""

_MOST_VALUES = 200_000
"""In one list or object, with all that it holds: a body has at most 16,384."""

_MOST_SECONDS = 5.0
"""Processor time: a node that pauses the process has not made a template expensive."""

_MOST_INTEGER = 1_000_000
_MOST_BITS = 4096
_ITEM = 64
"""Bytes of a small object and the pointer to it."""

_NESTED = 1024
"""Bytes that each list or object within a value is counted with: one may be there many times."""

_WIDTH = re.compile(r"\d{7}|%[^%a-zA-Z]*\*")
"""In a format: `%9999999d`, `{:9999999}`, and a width that a value says, `%*d`."""

_STRUCTURAL = {
    *("attr", "batch", "count", "d", "default", "dictsort", "first", "groupby", "items", "last"),
    *("length", "list", "map", "max", "min", "random", "reject", "rejectattr", "reverse", "safe"),
    *("select", "selectattr", "slice", "sort", "sum", "unique"),
}
"""Filters that write no value as a text."""

_PIECES = {"groupby", "list", "rsplit", "slice", "sort", "split", "splitlines"}
"""Those that make a list of a text's pieces."""

_WIDENING = {
    *("expandtabs", "format", "format_map", "indent", "join", "pprint", "tojson", "translate"),
    *("urlize", "wordwrap", "xmlattr"),
}
"""Filters and methods of texts that repeat one value as often as another says, or has places."""


class TemplateTooLargeError(TemplateRuntimeError):
    """The template would do or write more than one prompt may cost."""


class _NotSoonError(Exception):
    """The template would do or write more than `soon_written` allows."""


Written = TypeVar("Written")


_CONTAINERS: Final[Any] = (dict, list, tuple, set, frozenset, type({}.items()))


@dataclass(slots=True)
class _Spent:
    soon: bool
    bytes: int = 0
    turns: int = 0
    sizes: dict[int, tuple[Any, int]] = field(default_factory=dict)
    """Id -> a list or an object, and its elements."""

    ends: float = field(default_factory=lambda: time.thread_time() + _MOST_SECONDS)

    def need(self, size: int) -> None:
        if self.soon and self.bytes + size > _SOON_BYTES:
            raise _NotSoonError
        if self.bytes + size > MOST_BYTES:
            raise TemplateTooLargeError(
                f"it makes texts and lists of more than {MOST_BYTES >> 20} MiB: let it repeat less"
            )

    def elements(self, value: Any) -> int:
        """Return how many values one holds, in all that it holds and as often as it does.

        Lists that hold one another twice cost no bytes, and comparing two of them, or using one as
        a key, takes for ever and no turn.
        """
        if not isinstance(value, _CONTAINERS):
            return 1
        if (known := self.sizes.get(id(value))) is not None:
            return known[1]
        held: Iterable[Any] = value.values() if isinstance(value, dict) else value
        size = 1 + sum(self.elements(one) for one in held)
        if size > _MOST_VALUES:
            raise TemplateTooLargeError(
                f"it makes a list or an object of more than {_MOST_VALUES} values: let it nest less"
            )
        self.sizes[id(value)] = value, size
        return size

    def take_turn(self) -> None:
        self.turns += 1
        if self.soon and self.turns > _SOON_TURNS:
            raise _NotSoonError
        late = self.turns % 1024 == 0 and time.thread_time() > self.ends
        if self.turns > MOST_TURNS or late:
            raise TemplateTooLargeError(
                f"it takes more than {MOST_TURNS} turns of loops, calls and filters, or"
                f" {_MOST_SECONDS:.0f} s: let it repeat less"
            )


_SPENT: ContextVar[_Spent] = ContextVar("_SPENT")
_SOON: ContextVar[bool] = ContextVar("_SOON", default=False)


@contextmanager
def one_prompt() -> Iterator[None]:
    """Count what a template does from here on."""
    token = _SPENT.set(_Spent(_SOON.get()))
    try:
        yield
    finally:
        _SPENT.reset(token)


def soon_written(write: Callable[[], Written]) -> Written | None:
    """Return what writes prompts in about a millisecond; None: it would take longer."""
    token = _SOON.set(True)
    try:
        return write()
    except _NotSoonError:
        return None
    finally:
        _SOON.reset(token)


def charged(value: Any) -> Any:
    """Count a text or a list that was made; return it."""
    if isinstance(value, GeneratorType):
        return _counted(value)
    spent = _SPENT.get()
    if isinstance(value, str | dict):
        spent.bytes += sys.getsizeof(value)
    elif isinstance(value, list | tuple | set):
        spent.bytes += _ITEM * len(value)
    spent.need(0)
    spent.elements(value)
    return value


def _counted(values: Iterator[Any]) -> Iterator[Any]:
    for value in values:
        _SPENT.get().take_turn()
        yield charged(value)


def written(value: Any) -> int:
    """Return the size of a value as a text, about; TemplateTooLargeError: it is too long."""
    spent, size, left = _SPENT.get(), 0, [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            size += len(one)
        elif isinstance(one, dict | list | tuple | set | range):
            size += _NESTED + _ITEM * len(one)
            spent.need(size)
            left += [*one, *(one.values() if isinstance(one, dict) else ())]
    spent.need(size)
    return size


def _look(name: str, values: Sequence[Any]) -> None:
    """Refuse a filter or a text's method that would make too much of what it is given."""
    spent, sizes = _SPENT.get(), [abs(v) if isinstance(v, int) else written(v) for v in values]
    for one in values:
        if isinstance(one, int) and abs(one) > _MOST_INTEGER:
            raise TemplateTooLargeError(f"{name} has the number {one}, above {_MOST_INTEGER}")
    if name == "replace" and all(isinstance(one, str) for one in values[:3]):
        spent.need(sizes[0] + values[0].count(values[1]) * sizes[2])
    elif name in _PIECES and values and isinstance(values[0], str):
        spent.need(_ITEM // 4 * sizes[0])
    elif name in _WIDENING:
        if isinstance(values[0], str) and _WIDTH.search(values[0]):
            raise TemplateTooLargeError(f"{name} has a width of seven digits, or of a value")
        first, second = sorted([1, 1, *sizes])[-2:]
        spent.need(first * second)


class _Counting(CodeGenerator):
    """Code in which turns of loops, and texts that are joined or cut, are counted."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 (jinja2's)
        self.write("environment.joined((")
        for one in node.nodes:
            self.visit(one, frame)
            self.write(", ")
        self.write("))")

    def visit_Call(self, node: nodes.Call, *given: Any, **named: Any) -> None:  # noqa: N802
        if isinstance(node.node, nodes.EnvironmentAttribute):
            self.write("environment.turn()")
        else:
            super().visit_Call(node, *given, **named)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:  # noqa: N802
        self._literal(super().visit_Tuple, node, frame, made=node.ctx == "load")

    def visit_List(self, node: nodes.List, frame: Frame) -> None:  # noqa: N802
        self._literal(super().visit_List, node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802
        self._literal(super().visit_Dict, node, frame)

    def _literal(
        self, visit: Callable[..., None], node: nodes.Node, frame: Frame, *, made: bool = True
    ) -> None:
        self.write("environment.charged(" if made else "")
        visit(node, frame)
        self.write(")" if made else "")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        self._literal(super().visit_Getitem, node, frame, made=isinstance(node.arg, nodes.Slice))


@pass_context  # so that jinja2 computes nothing of it when a template is compiled
def _printed(_: Context, value: Any) -> Any:
    if not isinstance(value, str):
        written(value)
    return charged(value)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """The environment of templates that are rendered within `one_prompt`."""

    intercepted_binops = frozenset(("*", "**", "%", "+"))
    code_generator_class = _Counting
    charged = staticmethod(charged)

    def __init__(self, **given: Any) -> None:
        super().__init__(finalize=_printed, **given)
        del self.globals["lipsum"]  # texts of any length
        self.filters = {name: bounded(name, one) for name, one in self.filters.items()}

    def _generate(self, source: nodes.Template, *given: Any, **named: Any) -> str:
        for loop in source.find_all(nodes.For):
            turn = nodes.Call(nodes.EnvironmentAttribute("turn"), [], [], None, None)
            loop.body.insert(0, nodes.ExprStmt(turn, lineno=loop.lineno))
            loop.test = loop.test and nodes.And(turn, loop.test)
        for output in source.find_all(nodes.Output):  # texts of the template are printed, too
            output.nodes = [
                nodes.Const(one.data) if isinstance(one, nodes.TemplateData) else one
                for one in output.nodes
            ]
        return super()._generate(source, *given, **named)

    @staticmethod
    def turn() -> bool:
        _SPENT.get().take_turn()
        return True

    @staticmethod
    def joined(parts: Sequence[Any]) -> str:
        _SPENT.get().need(sum(map(written, parts)))
        return str(charged(str_join(parts)))

    def call(self, context: Context, called: Any, /, *given: Any, **named: Any) -> Any:
        spent = _SPENT.get()
        spent.take_turn()
        for one in (*given, *named.values()):
            spent.elements(one)  # those of a macro are a list of its own there
        text = getattr(getattr(called, "__wrapped__", called), "__self__", None)
        if isinstance(text, str):
            _look(called.__name__, (text, *given, *named.values()))
        return charged(super().call(context, called, *given, **named))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute `*`, `**`, `%` or `+`."""
        if operator == "%" and isinstance(left, str):
            _look("format", (left, right))
        elif isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * (abs(right) if operator == "**" else 1) + right.bit_length()
            if operator in {"*", "**"} and bits > _MOST_BITS:
                raise TemplateTooLargeError(f"it computes a number of more than {_MOST_BITS} bits")
        elif operator in {"*", "+"}:
            sizes = [one if isinstance(one, int) else _length(one) for one in (left, right)]
            _SPENT.get().need(sizes[0] * sizes[1] if operator == "*" else sum(sizes))
        return charged(super().call_binop(context, operator, left, right))


def _length(value: Any) -> int:
    return len(value) if hasattr(value, "__len__") else 0


def bounded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that is counted, and looked at before it runs."""
    kind = getattr(getattr(function, "jinja_pass_arg", None), "name", "")

    @pass_context
    @wraps(function)
    def looking(context: Context, first: Any, *given: Any, **named: Any) -> Any:
        _SPENT.get().take_turn()
        if name in _STRUCTURAL and not isinstance(first, str):
            _look(name, [*given, *named.values()])
        else:
            first = [*first] if isinstance(first, GeneratorType) else first
            _look(name, [first, *given, *named.values()])
        own = {"context": context, "eval_context": context.eval_ctx}.get(kind, context.environment)
        return charged(function(*([own] if kind else []), first, *given, **named))

    return looking
