"""Bodies as SDKs and other clients write them: what each adds to a plain request, or leaves out.

`client_sources.yaml` has the file and the version that each shape was read in.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.images import data_url, encode, plain_image

CHAT, TEXT, RESPONSE = "/v1/chat/completions", "/v1/completions", "/v1/responses"
QUESTION = {"role": "user", "content": "will it rain ?"}
FOUND = {"role": "tool", "tool_call_id": "call_1", "content": "no"}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "rain", "arguments": '{"city": "Ulm"}'},
}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RAIN = {
    "name": "rain",
    "description": "Rain in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
TOOL = {"type": "function", "function": RAIN}
SHOWN = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image"}]}
THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "dry"}
REFUSAL = {"type": "refusal", "refusal": "no"}
PDF = {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}
IMAGE: dict[str, Any] = {"type": "image_url", "image_url": {"url": data_url(encode(plain_image()))}}
FILE = {"type": "file", "file": PDF}
FORMAT = {**IMAGE, "image_url": {**IMAGE["image_url"], "format": "image/png"}}
SAID = {"role": "assistant", "content": "no"}
NAMED = "messages[2].tool_name"
HINT: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
HINTED = {"type": "text", "text": "hi", **HINT}
STRICT = {**TOOL, "function": {**RAIN, "strict": True}}
BARE = {**IMAGE, "image_url": {"url": IMAGE["image_url"]["url"].partition(",")[2]}}


SOURCES = yaml.safe_load(Path(__file__).with_name("client_sources.yaml").read_text())
"""Client -> repository, version and file; a row's client begins with one of them."""

RULE = "rule-"
"""Begins a row that was read in no source: what the rule takes and refuses."""


@dataclass(frozen=True)
class Sent:
    """What a client sends."""

    client: str
    fields: dict[str, Any]
    path: str = CHAT
    refused: str = ""


def chat(client: str, *messages: dict[str, Any], refused: str = "", **fields: Any) -> Sent:
    return Sent(client, {"messages": list(messages) or [QUESTION], **fields}, refused=refused)


def _none(*names: str) -> dict[str, None]:
    return dict.fromkeys(names)


def part(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def history(client: str, called: dict[str, Any], found: dict[str, Any] | None = None) -> Sent:
    return chat(client, QUESTION, called, found or FOUND)


def _call(**changes: Any) -> dict[str, Any]:
    call = {**CALL, **changes}
    return {name: one for name, one in call.items() if one is not None}


HISTORIES = (
    history("openai-python", CALLED),
    history(
        "openai-python-model-dump",
        {**CALLED, "refusal": None, "annotations": [], "audio": None, "function_call": None},
    ),
    history(
        "openai-python-exclude-none", {name: one for name, one in CALLED.items() if one is not None}
    ),
    history("openai-go", {"role": "assistant", "tool_calls": [CALL]}),
    history("go-openai", {"role": "assistant", "tool_calls": [_call(type="")]}),
    history("langchain", CALLED, {**FOUND, "content": [{"type": "text", "text": "no"}]}),
    history("langchain-content-blocks", {**CALLED, "content": []}),
    history(
        "langchain-js",
        {**CALLED, "content": []},
        {**FOUND, "content": [{"type": "text", "text": "no"}]},
    ),
    history("llama-index", {**CALLED, "tool_calls": [CALL]}, {**FOUND, "name": "rain"}),
    history("vercel-ai", {**CALLED, "reasoning_content": "dry"}),
    history(
        "vercel-ai-gemini",
        {**CALLED, "tool_calls": [_call(extra_content={"google": {"thought_signature": "x"}})]},
    ),
    history("ollama-go", {**CALLED, "reasoning": "dry", "tool_calls": [_call(index=0)]}),
    history("litellm", {**CALLED, "provider_specific_fields": {}, "reasoning_content": None}),
    history("open-webui-joined-deltas", {**CALLED, "tool_calls": [_call(index=0)]}),
    history("semantic-kernel", {"role": "assistant", "tool_calls": [CALL]}),
    history("vllm-client", {**CALLED, "reasoning": None, "reasoning_content": ""}),
    history("deepseek", {**CALLED, "content": "", "reasoning_content": "dry"}),
    history("anthropic-blocks", {**CALLED, "content": [{**THOUGHT, "signature": "s"}]}),
    history("mistral", {**CALLED, "content": [{**THOUGHT, "thinking": [HINTED]}], "prefix": False}),
    history(
        "mistral-calls",
        {**CALLED, "tool_calls": [_call(type=None, index=0)]},
        {**FOUND, "name": "rain"},
    ),
    history("litellm-blocks", {**CALLED, "thinking_blocks": [THOUGHT], "content": None}),
    history(
        "openrouter",
        {
            **CALLED,
            "content": "",
            "reasoning": "dry",
            "reasoning_details": [{"type": "reasoning.text", "text": "dry", "signature": "s"}],
            **HINT,
        },
        {**FOUND, **HINT},
    ),
    Sent(
        "openai-agents-reasoning",
        {
            "input": [
                QUESTION,
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "dry"}]},
                {"type": "function_call", "call_id": "call_1", **CALL["function"]},
                {**SHOWN, "output": [{"type": "input_text", "text": "no"}]},
            ]
        },
        RESPONSE,
    ),
    history("spring-ai", {**CALLED, "content": ""}),
    history(
        "ollama-python",
        {
            "role": "assistant",
            "content": "",
            "thinking": "",
            "images": [],
            "tool_calls": [{"function": {"name": "rain", "arguments": {"city": "Ulm"}}}],
        },
        {"role": "tool", "content": "no"},
    ),
    history(
        "openai-functions",
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "rain", "arguments": '{"city": "Ulm"}'},
        },
        {"role": "function", "name": "rain", "content": "no"},
    ),
)
"""One conversation in the words of each; its prompt is the same."""

REFUSED = (
    chat("openai-python", QUESTION, {"role": "assistant", "content": None, "refusal": "no"}),
    chat("langchain", QUESTION, {"role": "assistant", "content": "", "refusal": "no"}),
    chat("openai-parts", QUESTION, {"role": "assistant", "content": [REFUSAL]}),
    chat("openai-text", QUESTION, {"role": "assistant", "content": "no"}),
    Sent("openai", {"input": [QUESTION, {"role": "assistant", "content": [REFUSAL]}]}, RESPONSE),
)
"""An assistant that has refused, likewise."""

NO_ARGUMENTS = tuple(
    history(name, {**CALLED, "tool_calls": [{**CALL, "function": {"name": "rain", **arguments}}]})
    for name, arguments in {
        "openai-python": dict[str, Any](arguments="{}"),
        "go-openai-omitempty": {},
        "empty-text": {"arguments": ""},
        "null-text": {"arguments": "null"},
        "null": {"arguments": None},
        "ollama-object": {"arguments": {}},
        "cut": {"arguments": '{"city": "Ul'},
        "python": {"arguments": "{'city': 'Ulm'}"},
        "no-object": {"arguments": '"Ulm"'},
        "list": {"arguments": ["Ulm"]},
        "infinite": {"arguments": '{"city": 1e999}'},
    }.items()
)
"""A call without arguments, or with a text that is no object in JSON, likewise."""

BODIES = (
    chat("openai-python", max_completion_tokens=8, modalities=["text"], store=False),
    chat("openai-node", stream=True, stream_options={"include_usage": True}, n=1),
    chat(
        "openai-java",
        **_none("audio", "prediction", "stop", "web_search_options"),
        functions=[],
        tools=[],
        logit_bias={},
        metadata={},
        function_call="auto",
        tool_choice="auto",
        service_tier="auto",
        parallel_tool_calls=True,
        reasoning_effort="none",
        top_logprobs=0,
        verbosity="medium",
    ),
    chat("openai-go", {**QUESTION, "name": ""}, temperature=0.0, top_p=0, logprobs=False),
    chat(
        "langchain",
        stream=False,
        temperature=0.7,
        n=1,
        seed=1,
        top_p=1.0,
        stop=["\nObservation:"],
        max_completion_tokens=8,
        presence_penalty=0.0,
        frequency_penalty=0.0,
        store=False,
        tools=[TOOL],
        tool_choice="auto",
    ),
    chat("langchain-audio", QUESTION, {**SAID, "audio": {"id": "a"}}, refused="messages[1].audio"),
    chat("langchain-image", QUESTION, CALLED, {**FOUND, "content": [IMAGE]}),
    chat("langchain-js", QUESTION, stream=False, temperature=1, n=1, parallel_tool_calls=True),
    chat("langchain-js-file", part(FILE), refused="messages[0].content[0]"),
    chat("litellm", part({**IMAGE, "image_url": IMAGE["image_url"]["url"]}), max_tokens=8),
    chat("litellm-format", part(FORMAT), refused="messages[0].content[0].image_url.format"),
    chat("open-webui", part(IMAGE), stream=True, stop=[], seed=0, temperature=0.8, top_p=0.9),
    chat("open-webui-title", stream=False, max_completion_tokens=8),
    chat("open-webui-file", part(FILE), refused="messages[0].content[0]"),
    chat("llama-index", {**QUESTION, "content": None}, refused="messages[0].content"),
    chat("llama-index", stream=False, temperature=0.1, max_tokens=8),
    chat("vercel-ai", stream=True, stream_options={"include_usage": True}, max_tokens=8, seed=1),
    chat("vercel-ai-image", part(IMAGE), tools=[TOOL], tool_choice="auto"),
    chat("vercel-ai-file", part(FILE), refused="messages[0].content[0]"),
    chat("vercel-openai", part({**IMAGE, "prompt_cache_breakpoint": {"mode": "explicit"}})),
    chat("go-openai", part({"type": "text"}), stream=False),
    chat("semantic-kernel", stream=False, temperature=1.0, top_p=1.0, n=1, max_tokens=8),
    chat("autogen", {"role": "system", "content": ""}, {**QUESTION, "name": "user"}),
    chat("autogen-image", {**part(HINTED, IMAGE), "name": "user"}, CALLED, FOUND),
    chat("crewai", stream=True, stream_options={"include_usage": True}, tools=[STRICT]),
    chat("glm", temperature=0.95, top_p=0.7, max_tokens=8, seed=1),
    chat("glm-greedy", do_sample=False, temperature=0.01, refused="do_sample"),
    chat("glm-id", request_id="a", refused="request_id"),
    chat("glm-image", part(BARE), refused="messages[0].content[0]"),
    chat("mistral", part({**IMAGE, "image_url": IMAGE["image_url"]["url"]}), safe_prompt=False),
    chat("mistral-any", tools=[TOOL], tool_choice="any", refused="tool_choice"),
    chat("mistral-mode", prompt_mode="reasoning", refused="prompt_mode"),
    chat("mistral-prefix", QUESTION, {**SAID, "prefix": True}, refused="messages[1].prefix"),
    chat("mistral-seed", random_seed=1, refused="random_seed"),
    chat("openrouter", {"role": "system", "content": [HINTED]}, part(HINTED, {**IMAGE, **HINT})),
    chat("openrouter-file", part({**FILE, **HINT}), refused="messages[0].content[0]"),
    chat("spring-ai", part({"type": "text", "text": "hi"}, IMAGE), stream=False),
    chat(f"{RULE}whole-number", stop=[], max_tokens=8.0),
    chat(
        "ollama",
        **_none("stop", "tools", "logprobs", "response_format", "stream_options"),
        stream=False,
        _debug_render_only=False,
        top_logprobs=0,
    ),
    Sent(
        "ollama",
        {"prompt": "hi", "frequency_penalty": 0, "top_p": 0, "suffix": "", "stop": None}
        | {"presence_penalty": 0, "logprobs": None, "_debug_render_only": False},
        TEXT,
    ),
    chat("ollama-string", part({"type": "image_url", "image_url": IMAGE["image_url"]["url"]})),
    chat("ollama-python", options={}, format="", think=False, keep_alive=None),
    chat("ollama-python", {**QUESTION, "images": ["iVBO"]}, refused="messages[0].images"),
    chat("ollama-python", QUESTION, CALLED, {**FOUND, "tool_name": "x"}, refused=NAMED),
    chat("vllm-input-image", part({"type": "input_image"}), refused="messages[0].content[0]"),
    chat("vllm-no-type", part({"image_url": "https://a.org/b"}), refused="messages[0].content[0]"),
    chat("vllm-uuid", part({**IMAGE, "uuid": "a"}), refused="messages[0].content[0].uuid"),
    chat(
        "vllm",
        QUESTION,
        **_none("truncate_prompt_tokens", "prompt_logprobs", "allowed_token_ids", "documents"),
        **_none("chat_template", "guided_json", "guided_choice", "return_tokens_as_token_ids"),
        **dict.fromkeys(("use_beam_search", "include_stop_str_in_output", "ignore_eos"), False),
        **dict.fromkeys(("echo", "continue_final_message"), False),
        **dict.fromkeys(("skip_special_tokens", "spaces_between_special_tokens"), True),
        add_generation_prompt=True,
        best_of=1,
        top_k=-1,
        min_tokens=0,
        min_p=0.0,
        repetition_penalty=1.0,
        length_penalty=1.0,
        priority=0,
        stop_token_ids=[],
        bad_words=[],
        chat_template_kwargs={},
    ),
    chat("go-openai-without-results", QUESTION, CALLED, {"role": "tool", "tool_call_id": "call_1"}),
    chat(
        f"{RULE}not-used",
        thinking={"type": "disabled"},
        enable_thinking=False,
        models=[],
        n_predict=-1,
    ),
    chat(f"{RULE}thinks", thinking={"type": "enabled"}, refused="thinking"),
    chat(f"{RULE}reasons", reasoning={"enabled": True}, refused="reasoning"),
    chat("vllm-tokens", add_special_tokens=False, detokenize=True, repeat_penalty=1.0),
    chat("vllm-begin", add_special_tokens=True, refused="add_special_tokens"),
    Sent("vllm-begin", {"prompt": "hi", "add_special_tokens": True}, TEXT),
    Sent("openai-defaults", {"input": "hi", "n": 1, "presence_penalty": 0}, RESPONSE),
    Sent("langchain-openai", {"prompt": "hi", "best_of": 1, "logit_bias": {}, "n": 1}, TEXT),
    Sent(
        "openai-python",
        {"prompt": "hi", "suffix": None, "echo": False, "logprobs": None, "stop": None},
        TEXT,
    ),
    Sent("vllm", {"prompt": "hi", "use_beam_search": False, "suffix": "", "top_p": 0}, TEXT),
    Sent("vllm-client", {"prompt": "hi", "modalities": ["text"], "logprobs": False}, TEXT),
    Sent("openai-python", {"input": "hi", "store": False, "truncation": "disabled"}, RESPONSE),
    Sent(
        "openai-agents",
        {
            "input": [QUESTION],
            "instructions": None,
            "include": [],
            "tools": [],
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "text": {"format": {"type": "text"}, "verbosity": "medium"},
            "top_p": 0,
        },
        RESPONSE,
    ),
    Sent(
        "vercel-ai",
        {
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "function_call", "call_id": "c", "name": "rain", "arguments": {}},
                {"type": "function_call_output", "call_id": "c", "output": "no"},
            ],
            "modalities": ["text"],
            "top_logprobs": 0,
        },
        RESPONSE,
    ),
    chat("openai-audio", modalities=["text", "audio"], refused="modalities"),
    chat("openai-reasoning", reasoning_effort="low", refused="reasoning_effort"),
    chat("openai-functions", functions=[RAIN], refused="functions"),
    chat("openai-search", web_search_options={}, refused="web_search_options"),
    chat("openai-store", store=True, refused="store"),
    chat("vllm-beams", use_beam_search=True, refused="use_beam_search"),
    chat("vllm-best-of", best_of=2, refused="best_of"),
    chat("ollama-options", options={"num_ctx": 4096}, refused="options"),
    chat("ollama-think", think=True, refused="think"),
    chat("litellm-unknown", mock_response="x", refused="mock_response"),
    chat(f"{RULE}no-content", {"role": "user"}, refused="messages[0].content"),
    chat(f"{RULE}no-parts", {"role": "user", "content": []}, refused="messages[0].content"),
    chat(f"{RULE}user-thinks", {**QUESTION, "thinking": "dry"}, refused="messages[0].thinking"),
    chat(f"{RULE}a-part-thinks", {**QUESTION, "content": [THOUGHT]}, refused="messages[0].content"),
    chat(f"{RULE}user-refuses", {**QUESTION, "content": [REFUSAL]}, refused="messages[0].content"),
    chat(f"{RULE}no-hint", {**QUESTION, "cache_control": 1}, refused="messages[0].cache_control"),
    chat("langchain-hints", {**QUESTION, "content": [HINTED]}, tools=[{**TOOL, **HINT}], **HINT),
    Sent(
        "openai-agents-image", {"input": [SHOWN]}, RESPONSE, refused="input[0].output[0].image_url"
    ),
    Sent("openai-background", {"input": "hi", "background": True}, RESPONSE, "background"),
    Sent("openai-effort", {"input": "hi", "reasoning": {"effort": "low"}}, RESPONSE, "reasoning"),
    Sent("openai-suffix", {"prompt": "hi", "suffix": "!"}, TEXT, "suffix"),
    Sent("vllm-beams", {"prompt": "hi", "use_beam_search": True}, TEXT, "use_beam_search"),
)
