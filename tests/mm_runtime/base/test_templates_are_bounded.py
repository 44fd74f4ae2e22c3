"""A chat template that repeats, counts or nests without end is refused before it fills memory."""

import pytest

from mm_api.families.llava import PROMPT
from mm_runtime.base import bounded_templates
from mm_runtime.base.chat_template import PromptTemplate, TemplateRefusedError, Turn
from support.cases import cases

NESTED = (
    "{% set n = namespace(s=['lol']) %}{% for i in range(60) %}{% set n.s = [n.s, n.s] %}"
    "{% endfor %}"
)
DOUBLED = "{% set n = namespace(s='xx') %}{% for i in range(60) %}{% set n.s = ADD %}{% endfor %}"
LARGE = "128 MiB"
VALUES = "200000 values"
TURNS = "20000 turns"
NUMBER = "the number 1000000000"
WIDTH = "seven digits"


@cases(
    "source words",
    {
        "product": ("{{ 'x' * 10 ** 9 }}", LARGE),
        "list": ("{{ [1] * 10 ** 9 }}", LARGE),
        "power": ("{{ 7 ** 9999 }}", "4096 bits"),
        "loops": (
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            TURNS,
        ),
        "loop-with-a-test": (
            "{% for i in range(9999) %}{% for j in range(999) if j < 0 %}{% endfor %}{% endfor %}",
            TURNS,
        ),
        "macro": (
            "{% macro m(n) %}{% if n %}{{ m(n-1) ~ m(n-1) }}{% endif %}{% endmacro %}{{ m(60) }}",
            TURNS,
        ),
        "join": ("{{ range(99999) | join('x' * 100000) }}", LARGE),
        "join-of-a-text": ("{{ ('x' * 100000).join(['a'] * 99999) }}", LARGE),
        "doubled-by-plus": (DOUBLED.replace("ADD", "n.s + n.s"), LARGE),
        "doubled-by-tilde": (DOUBLED.replace("ADD", "n.s ~ n.s"), LARGE),
        "doubled-by-a-block": (
            DOUBLED.replace(
                "{% set n.s = ADD %}", "{% set t %}{{ n.s }}{{ n.s }}{% endset %}{% set n.s = t %}"
            ),
            LARGE,
        ),
        "cut-each-time": (
            (
                "{% set n = namespace(s=[]) %}{% set t = 'x' * 1000000 %}{% for i in range(9999) %}"
                "{% set n.s = n.s + [t[1:]] %}{% endfor %}"
            ),
            LARGE,
        ),
        "nested": (NESTED + "{{ n.s }}", VALUES),
        "nested-and-equal": (NESTED + "{{ [n.s] == [n.s[:]] }}", VALUES),
        "nested-keys": (NESTED.replace("[n.s, n.s]", "(n.s, n.s)") + "{{ {n.s: 1} }}", VALUES),
        "nested-objects": (NESTED.replace("[n.s, n.s]", "{1: n.s, 2: n.s}"), VALUES),
        "nested-views": (
            NESTED.replace("[n.s, n.s]", "dict(x=n.s, y=n.s).items()"),
            VALUES,
        ),
        "nested-by-a-macro": (
            "{% macro m() %}{% set n.s = varargs %}{% endmacro %}"
            + NESTED.replace("{% set n.s = [n.s, n.s] %}", "{{ m(n.s, n.s) }}"),
            VALUES,
        ),
        "many-values": ("{{ range(99999) | list * 3 == 1 }}", VALUES),
        "filter": ("{{ 'x' | center(10 ** 9) }}", NUMBER),
        "method": ("{{ 'x'.ljust(10 ** 9) }}", NUMBER),
        "width": ("{{ '%1000000000d' % 1 }}", WIDTH),
        "width-of-a-value": ("{{ '%*d' % (10 ** 9, 1) }}", WIDTH),
        "width-in-braces": ("{{ '{:1000000000}'.format(1) }}", WIDTH),
        "replace": ("{{ ('x' * 100000) | replace('x', 'y' * 100000) }}", LARGE),
        "replace-of-nothing": ("{{ ('x' * 100000).replace('', 'y' * 100000) }}", LARGE),
        "indent": ("{{ ('\\n' * 100000) | indent('y' * 100000) }}", LARGE),
        "json-indent": ("{{ range(99999) | list | tojson(indent=999999) }}", LARGE),
        "pieces": ("{{ ('a ' * 30000000).split() | length }}", LARGE),
        "batch": ("{{ [1] | batch(10 ** 9, 'x') | list }}", NUMBER),
        "words": ("{{ lipsum(n=10 ** 9) }}", "'lipsum' is undefined"),
    },
)
def test_it_is_refused(monkeypatch: pytest.MonkeyPatch, source: str, words: str) -> None:
    monkeypatch.setattr(bounded_templates, "MOST_TURNS", 20_000)
    with pytest.raises(TemplateRefusedError) as refused:
        PromptTemplate(source, {}, PROMPT, file="x.jinja").render([Turn("user", ("hi",))])

    assert words in str(refused.value)
    assert "lipsum" in source or "(x.jinja)" in str(refused.value)


def test_what_a_client_gives_is_bounded() -> None:
    """`chat_template_kwargs` say how often, and of how much."""
    template = PromptTemplate("{{ 'x' * n }}{{ messages[0].content }}", {}, PROMPT)
    with pytest.raises(TemplateRefusedError, match="128 MiB"):
        template.render([Turn("user", ("hi",))], variables={"n": 10**10})
    assert template.render([Turn("user", ("hi",))], variables={"n": 3}) == "xxxhi"


def test_long_conversations_are_written() -> None:
    source = (
        "{% set n = namespace(system='') %}{% for m in messages %}{% if loop.first %}"
        "{% set n.system = n.system + m.content | trim %}{% else %}{{ '<|' + m.role + '|>\\n' ~"
        " (m.content | trim | replace('\\r', '')) }}{{ m.content.split('</think>')[-1][:1] }}"
        "{% endif %}{% endfor %}{{ messages | tojson | length }}"
    )
    turns = [Turn("user" if at % 2 else "assistant", ("x" * 1000,)) for at in range(1000)]
    assert len(PromptTemplate(source, {}, PROMPT).render(turns)) > 10**6
