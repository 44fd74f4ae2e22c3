"""What vLLM's clients say about the prompt itself acts."""

from pathlib import Path

from support.cases import cases
from support.gateways import MODEL, client_of, toy_gateway
from support.scripted_engine import ScriptedEngine

QUESTION = {"role": "user", "content": "What color is it?"}
TEMPLATE = (
    "<s>{% for message in messages %}{{ message.role }} {{ message.content }}\n{% endfor %}"
    "{% if enable_thinking %}think {{ budget }}{% endif %}"
    "{% if add_generation_prompt %}assistant{% endif %}"
)


async def _prompt(tmp_path: Path, **fields: object) -> tuple[int, str]:
    engine = ScriptedEngine()
    body = {"model": MODEL, "messages": [QUESTION], **fields}
    async with client_of(toy_gateway(tmp_path, engine, template=TEMPLATE)) as client:
        answer = await client.post("/v1/chat/completions", json=body)
    if answer.status_code != 200:
        error = answer.json()["error"]
        return answer.status_code, f"{error['param']}: {error['message']}"
    return 200, engine.requests[0].prompt


@cases(
    "fields prompt",
    {
        "nothing": ({}, "<s>user What color is it?\nassistant"),
        "variables": (
            {"chat_template_kwargs": {"enable_thinking": True, "budget": 7}},
            "<s>user What color is it?\nthink 7assistant",
        ),
    },
)
async def test_prompts(tmp_path: Path, fields: dict[str, object], prompt: str) -> None:
    assert await _prompt(tmp_path, **fields) == (200, prompt)


@cases(
    "fields words",
    {
        "messages": ({"chat_template_kwargs": {"messages": []}}, "is set by the server"),
        "control-token": ({"chat_template_kwargs": {"budget": ["</s>"]}}, "control token"),
        "many": ({"chat_template_kwargs": {f"x{number}": 1 for number in range(33)}}, "at most 32"),
        "continued": ({"continue_final_message": True}, "POST /v1/completions"),
    },
)
async def test_refusals(tmp_path: Path, fields: dict[str, object], words: str) -> None:
    status, message = await _prompt(tmp_path, **fields)
    assert status == 400
    assert words in message
    assert message.startswith(("chat_template_kwargs", "continue_final_message"))
