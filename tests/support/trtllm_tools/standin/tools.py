"""Tools on the wire of trtllm-serve, by version: what it takes, what reaches the prompt.

Source: tensorrt_llm/serve/{openai_protocol,openai_server,chat_utils}.py of 1.0 to 1.2, started
without `--tool_parser`, which leaves calls in the text. Every version gives `tools` to the chat
template, whatever `tool_choice` is.
"""

import json
from typing import Any

from arguments import VERSION

KEEPS_CALLS = not VERSION.startswith(("0.", "1.0.", "1.1."))
"""Pull request 8817."""

FIELDS = {"name", "description", "parameters"}
"""Of FunctionDefinition, which forbids others."""


class RefusedToolsError(Exception):
    """Tools that upstream answers with 400."""


def check_tools(body: dict[str, Any]) -> None:
    """Check a request as its type and `check_tool_choice` do."""
    tools, choice = body.get("tools"), body.get("tool_choice", "none")
    for tool in tools or ():
        if foreign := (set(tool) - {"type", "function"}) | (set(tool["function"]) - FIELDS):
            raise RefusedToolsError(f"tools.{min(foreign)}: Extra inputs are not permitted")
        if not isinstance(tool["function"]["name"], str):
            raise RefusedToolsError("tools.function.name: Input should be a valid string")
    if choice == "none":
        return
    if choice != "auto" and not isinstance(choice, dict):
        raise RefusedToolsError("tool_choice: Input should be 'none' or 'auto'")
    if choice == "auto" and not KEEPS_CALLS:
        raise RefusedToolsError("Currently only named tools are supported.")
    if tools is None:
        raise RefusedToolsError("When using `tool_choice`, `tools` must be set.")


def conversation(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the chat template gets of messages besides role and content."""
    return [_kept(one) if KEEPS_CALLS else {} for one in messages]


def _kept(message: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    if message["role"] == "assistant" and message.get("tool_calls") is not None:
        kept["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    if message["role"] == "tool" and "tool_call_id" in message:
        kept["tool_call_id"] = message["tool_call_id"]
    return kept


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    if not isinstance(function["arguments"], str):
        raise RefusedToolsError("function.arguments: Input should be a valid string")
    return {**call, "function": {**function, "arguments": json.loads(function["arguments"])}}


def calls_of(tools: list[dict[str, Any]]) -> list[str]:
    """Return the pieces of an answer that calls each function, as a model of Hermes' format."""
    texts = [
        f'<tool_call>\n{{"name": "{one["function"]["name"]}", "arguments": {{"city": "Ulm"}}}}'
        "\n</tool_call>\n"
        for one in tools
    ]
    text = "One moment.\n" + "".join(texts)
    return [text[at : at + 7] for at in range(0, len(text), 7)]
