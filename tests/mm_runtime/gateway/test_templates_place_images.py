"""Chat templates of both kinds write the prompt, with one placeholder for each image."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from mm_api.families.llava import PROMPT
from mm_runtime.base.chat_template import Media, TemplateRefusedError, Turn
from mm_runtime.gateway.prompts.templates import ChatTemplate, load_template
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.prompts.writers import PromptWriter
from support.cases import cases

PARTS = (
    "{% for m in messages %}{{ m.role }}|"
    "{% for c in m.content %}{{ '<image>' if c.type == 'image' else c.text }}{% endfor %};"
    "{% endfor %}{% if add_generation_prompt %}assistant|{% endif %}"
)
TEXT = (
    "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}] {{ m['content'] | trim }} {% endfor %}"
)
TURN = Turn("user", ("what", Media.IMAGE, "is it"))


def test_a_template_of_parts_gets_parts() -> None:
    assert ChatTemplate(PARTS, {}, PROMPT).render([TURN]) == "user|what<image>is it;assistant|"


def test_a_template_of_text_gets_text() -> None:
    """A template that knows no parts gets placeholders on lines of their own."""
    rendered = ChatTemplate(TEXT, {"bos_token": "<s>"}, PROMPT).render([TURN])
    assert rendered == "<s>[user] what\n<image>\nis it "


def test_a_template_that_refuses_is_reported() -> None:
    """`raise_exception` in a template becomes a refusal with its message."""
    template = ChatTemplate(
        PARTS
        + "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}",
        {},
        PROMPT,
    )
    with pytest.raises(TemplateRefusedError, match="no system"):
        template.render([Turn("system", ("x",))])


@cases(
    "source variable",
    {
        "division": ("{{ 7 // given }}", 0),
        "range": ("{% for one in range(given) %}{% endfor %}", 10**9),
        "power": ("{{ 10.0 ** given }}", 400),
        "encoding": ("{{ 'x'.encode(given) }}", "no-encoding"),
        "depth": ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() if given }}", 1),
    },
)
def test_a_template_that_fails_on_a_variable_is_reported(source: str, variable: object) -> None:
    """Variables come with requests: the request is refused, and the gateway has not failed."""
    template = ChatTemplate(f"{{% if given is defined %}}{source}{{% endif %}}", {}, PROMPT)
    with pytest.raises(TemplateRefusedError):
        template.render([TURN], variables={"given": variable})


@pytest.mark.parametrize(
    "attack",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__ }}",
    ],
    ids=["subclasses", "mutation", "globals"],
)
def test_a_hostile_template_is_kept_in_its_box(attack: str) -> None:
    """Templates come with checkpoints; the sandbox refuses what reaches out of it."""
    with pytest.raises(TemplateRefusedError):
        ChatTemplate(attack, {}, PROMPT).render([TURN])


def test_text_of_users_is_never_a_template() -> None:
    rendered = ChatTemplate(PARTS, {}, PROMPT).render([Turn("user", ("{{ 7 * 7 }}",))])
    assert rendered == "user|{{ 7 * 7 }};assistant|"


@cases(
    "name content",
    {
        "jinja": ("chat_template.jinja", "{{ x.y }}"),
        "json": ("chat_template.json", '{"chat_template": "{{ x.y }}"}'),
        "processor": ("processor_config.json", '{"chat_template": "{{ x.y }}"}'),
        "tokenizer": ("tokenizer_config.json", '{"chat_template": "{{ x.y }}"}'),
        "the-familys": ("built in for the family", ""),
    },
)
def test_a_refusal_names_the_file(tmp_path: Path, name: str, content: str) -> None:
    """That has the template: the gateway's and that of Triton's preprocessing alike."""
    if content:
        (tmp_path / name).write_text(content)
    style = replace(PROMPT, chat="{{ x.y }}", wrapper="{{ x.y }}")
    words = re.escape(f"({name}) does not take this conversation: 'x' is undefined")
    with pytest.raises(TemplateRefusedError, match=words):
        load_template(tmp_path, style).render([TURN])
    with pytest.raises(RequestError, match=words):
        PromptWriter.from_folder(tmp_path, None, style).write("?", 0)


def test_a_checkpoint_without_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no chat template"):
        load_template(tmp_path, PROMPT)
