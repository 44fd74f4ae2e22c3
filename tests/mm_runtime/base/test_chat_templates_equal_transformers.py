"""A chat template writes what transformers makes it write: globals, tags, filters, variables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

from mm_api.families.llava import PROMPT
from mm_runtime.base.chat_template import (
    Call,
    Media,
    PromptTemplate,
    TemplateRefusedError,
    Tool,
    Turn,
)

TODAY = datetime(2026, 2, 28, 23, 59, 58)  # noqa: DTZ001 (templates know the local time only)
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
TOOL: Tool = {"name": "look", "description": "é <b>", "parameters": {"type": "object"}}
QUESTION = Turn("user", ("What is é?",))
CALL = Turn("assistant", (), (Call("call00001", "look", {"x": [1, None]}),))
FOUND = Turn("tool", ("a hat",), answers="call00001", name="look")
ANSWER = Turn("assistant", ("e",))

EACH = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
PARTS = (
    "{% for m in messages %}{{ m.role }}{% for p in m.content %}"
    "{{ '<image>' if p.type == 'image' else p.text }}{% endfor %}|{% endfor %}"
)


@dataclass(frozen=True)
class Case:
    """A template and what it is given."""

    source: str
    turns: Sequence[Turn] = (QUESTION,)
    tools: Sequence[Tool] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)


CASES = {
    "date": Case("{{ strftime_now('%Y-%m-%d %d %B %A %H:%M') }}"),
    "date-where-there-is-one": Case(
        "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% else %}26 Jul{% endif %}"
    ),
    "no-tools": Case(
        "{{ tools is none }}{{ tools is defined }}{{ tools is not none }}{{ not tools }}"
        "{{ tools is iterable }}"
    ),
    "tools": Case("{{ tools | tojson }}{{ tools is none }}{{ tools | length }}", tools=[TOOL]),
    "no-documents": Case("{{ documents is none }}{{ documents is defined }}"),
    "documents": Case(
        "{% for d in documents %}{{ d.title }}={{ d.text }}{% endfor %}",
        variables={"documents": [{"title": "T", "text": "é"}]},
    ),
    "special-tokens": Case(
        "{{ bos_token }}{{ eos_token }}{{ unk_token }}{{ pad_token }}{{ sep_token is defined }}"
        "{{ cls_token is defined }}{{ mask_token is defined }}{{ cls_token }}"
    ),
    "a-variable-instead-of-a-token": Case("{{ pad_token }}", variables={"pad_token": "P"}),
    "variables": Case("{{ enable_thinking is false }}", variables={"enable_thinking": False}),
    "variable-that-is-not-there": Case(
        "{{ enable_thinking }}{{ enable_thinking is defined }}"
        "{{ enable_thinking | default('d') }}{{ 'x' if enable_thinking }}"
    ),
    "opens-an-answer": Case("{{ add_generation_prompt }}"),
    "json": Case(
        "{{ messages[0].content | tojson }}{{ {'b': '<é>', 'a': [1, none, true]} | tojson }}"
        "{{ {'b': 1, 'a': 2} | tojson(sort_keys=True, separators=(',', ':')) }}"
        "{{ {'a': 'é'} | tojson(indent=2) }}{{ {'a': 'é'} | tojson(ensure_ascii=True) }}"
        '{{ "\'&<" | tojson }}'
    ),
    "loops-end-early": Case(
        "{% for one in range(9) %}{% if one == 2 %}{% continue %}{% endif %}"
        "{% if one > 4 %}{% break %}{% endif %}{{ one }}{% endfor %}"
    ),
    "generation": Case(
        "{% for m in messages %}{% generation %}{% set x = 1 %}{{ m.content }}{{ m.role }}"
        "{% endgeneration %}{{ x }}{{ loop.index }}{% endfor %}"
    ),
    "generation-with-blanks": Case("a\n  {%- generation -%}  b  {%- endgeneration %}\n c"),
    "namespaces": Case(
        "{% set n = namespace(a=1, self=2) %}{% for _ in range(3) %}{% set n.a = n.a + 1 %}"
        "{% endfor %}{{ n.a }}{{ n.self }}{% set k = namespace({'b': 3}) %}{{ k.b }}"
    ),
    "dictionaries": Case(
        "{{ dict(a=1, **{'b': 2}) }}{{ dict.fromkeys(['a']) }}{{ dict({'a': 1}.items()) }}"
    ),
    "macros": Case(
        "{% macro f(x, y='é') %}[{{ x }}{{ y }}{{ caller() if caller }}]{% endmacro %}"
        "{{ f(1) }}{% call f(2, y=3) %}inner{% endcall %}"
    ),
    "blanks": Case(
        "\n  {% if true %}\n  a\n  {% endif %}\n{%- for m in messages -%}\n  {{ m.role }}\n"
        "{%- endfor %}\n\n  {# a comment #}\nb {{- 1 -}} c\n\n"
    ),
    "html": Case("{{ messages[0].content }}{{ '<b>&' }}{{ '<b>' | e }}", [Turn("user", ("<&",))]),
    "messages-of-text": Case(EACH, [Turn("system", ("S",)), QUESTION, ANSWER, QUESTION]),
    "messages-of-parts": Case(
        PARTS, [Turn("system", ("S",)), Turn("user", (Media.IMAGE, "a", Media.IMAGE, "b"))]
    ),
    "calls": Case(
        "{% for m in messages %}{{ m.role }}{{ m.content is defined }}{{ 'content' in m }}"
        "{{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }}{{ m.tool_call_id }}"
        "{{ m.name }};{% endfor %}",
        [QUESTION, CALL, FOUND],
        [TOOL],
    ),
    "arguments-of-calls": Case(
        "{% for m in messages if m.tool_calls %}{% for c in m.tool_calls %}"
        "{% if c.function %}{% set c = c.function %}{% endif %}{{ c.name }}"
        "{{ c.arguments if c.arguments is string else c.arguments | tojson }}"
        "{% for k, v in c.arguments.items() %}{{ k }}={{ v }}{% endfor %}{% endfor %}{% endfor %}",
        [QUESTION, CALL],
        [TOOL],
    ),
    "methods": Case(
        "{{ 'a</think>b'.split('</think>')[-1].lstrip('\\n') }}{{ messages[::-1] | length }}"
        "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}"
        "{{ messages[0] is mapping }}{{ messages[0].items() | list | length }}"
        "{{ 'x' ~ 1 }}{{ loop is defined }}{{ '%s' | format('f') }}{{ [3, 1] | sort }}"
    ),
}

REFUSED = {
    "refuses": Case("{{ raise_exception('no such role') }}"),
    "function-that-is-not-there": Case("{{ clock() }}"),
    "part-of-what-is-not-there": Case("{{ tools[0].name }}"),
    "private-name": Case("{% set n = namespace(_a=1) %}"),
    "private-name-later": Case("{% set n = namespace() %}{% set n._a = 1 %}"),
    "class": Case("{{ dict.__class__.__mro__ }}"),
    "change": Case("{{ messages.append(1) }}"),
    "json-of-nothing": Case("{{ nothing | tojson }}"),
    "large-range": Case("{% for one in range(1000000) %}{% endfor %}"),
}


class _Clock(datetime):
    @classmethod
    def now(cls, _: object = None) -> datetime:  # type: ignore[override]
        return TODAY


def _messages(case: Case) -> list[dict[str, Any]]:
    """Return messages as an OpenAI client has them: null where nothing is said."""
    found = []
    for turn in case.turns:
        content: Any = [
            {"type": one.value} if isinstance(one, Media) else {"type": "text", "text": one}
            for one in turn.parts
        ]
        if "p.type" not in case.source:
            content = "\n".join(one["text"] for one in content) if content else None
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in turn.calls
        ]
        message = {"role": turn.role, "content": content or None, "tool_calls": calls or None}
        found.append(message | {"tool_call_id": turn.answers, "name": turn.name})
    return found


def _theirs(case: Case) -> str:
    words = Tokenizer(WordLevel({"<unk>": 0}, unk_token="<unk>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **SPECIAL)
    variables = dict(case.variables)
    rendered = tokenizer.apply_chat_template(
        _messages(case),
        tools=[{"type": "function", "function": dict(one)} for one in case.tools] or None,
        documents=variables.pop("documents", None),
        chat_template=case.source,
        add_generation_prompt=True,
        tokenize=False,
        **variables,
    )
    assert isinstance(rendered, str)
    return rendered


def _ours(case: Case) -> str:
    template = PromptTemplate(case.source, SPECIAL, PROMPT, lambda: TODAY)
    return template.render(case.turns, case.tools, case.variables)


@pytest.mark.parametrize("name", CASES)
def test_prompts_are_those_of_transformers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template_utils, "datetime", _Clock)
    assert _theirs(CASES[name]) == _ours(CASES[name])


@pytest.mark.parametrize("name", REFUSED)
def test_what_transformers_refuses_is_refused(name: str) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 (of jinja2, or of Python)
        _theirs(REFUSED[name])
    with pytest.raises(TemplateRefusedError) as refused:
        _ours(REFUSED[name])
    words = "no such role"
    assert (words in str(expected.value)) == (words in str(refused.value))
