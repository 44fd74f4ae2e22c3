"""Bodies as SDKs and other clients write them: what each adds to a plain request, or leaves out.

Shapes of messages are those of LangChain's, Vercel's, LlamaIndex's and go-openai's converters;
parameters are those that the clients and servers named document.
"""

from dataclasses import dataclass
from typing import Any

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
HINT: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
HINTED = {"type": "text", "text": "hi", **HINT}


@dataclass(frozen=True)
class Sent:
    """What a client sends."""

    client: str
    fields: dict[str, Any]
    path: str = CHAT
    refused: str = ""


def chat(client: str, *messages: dict[str, Any], refused: str = "", **fields: Any) -> Sent:
    """Return a chat; without messages it has one question."""
    return Sent(client, {"messages": list(messages) or [QUESTION], **fields}, refused=refused)


def history(client: str, called: dict[str, Any], found: dict[str, Any] | None = None) -> Sent:
    """Return a chat with an earlier call of a tool, and what that has found."""
    return chat(client, QUESTION, called, found or FOUND)


def _call(**changes: Any) -> dict[str, Any]:
    """Return the call with other keys; those that are None are left out."""
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
    history("go-openai", {**CALLED, "content": ""}),
    history("langchain-content-blocks", {**CALLED, "content": []}),
    history("langchain-js", {**CALLED, "content": "", "name": None}),
    history("vercel-ai", {**CALLED, "content": ""}),
    history("litellm", {**CALLED, "provider_specific_fields": {}, "reasoning_content": None}),
    history("open-webui-joined-deltas", {**CALLED, "tool_calls": [_call(index=0)]}),
    history("semantic-kernel", {**CALLED, "tool_calls": [_call(type=None)]}),
    history("vllm-client", {**CALLED, "reasoning": None, "reasoning_content": ""}),
    history("deepseek", {**CALLED, "reasoning_content": "dry"}),
    history("anthropic-blocks", {**CALLED, "content": [{**THOUGHT, "signature": "s"}]}),
    history("mistral", {**CALLED, "content": [{**THOUGHT, "thinking": [HINTED]}], "prefix": False}),
    history("litellm-blocks", {**CALLED, "thinking_blocks": [THOUGHT], "content": None}),
    history("openrouter", {**CALLED, "reasoning_details": [{"type": "reasoning.text"}]}),
    history("openrouter-hints", {**CALLED, "cache_control": {"type": "ephemeral"}}),
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
    history("spring-ai", {**CALLED, "content": "", "refusal": "", "audio": None}),
    history(
        "ollama",
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
        "autogen-functions",
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
    chat("text", QUESTION, {"role": "assistant", "content": "no"}),
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
        audio=None,
        function_call="auto",
        functions=[],
        logit_bias={},
        metadata={},
        parallel_tool_calls=True,
        prediction=None,
        reasoning_effort="none",
        service_tier="auto",
        stop=None,
        tool_choice="auto",
        tools=[],
        top_logprobs=0,
        verbosity="medium",
        web_search_options=None,
    ),
    chat("openai-go", {**QUESTION, "name": ""}, temperature=0.0, top_p=0, logprobs=False),
    chat(
        "langchain",
        QUESTION,
        temperature=0.7,
        n=1,
        stream=False,
        stop=None,
        max_tokens=8,
        presence_penalty=0.0,
        frequency_penalty=0.0,
        seed=None,
        top_p=1,
        logprobs=None,
        reasoning_effort=None,
        response_format={"type": "text"},
    ),
    chat("langchain-js", QUESTION, stream=False, user=None, functions=None, function_call=None),
    chat("litellm", QUESTION, max_tokens=8, extra_headers=None, drop_params=None, caching=None),
    chat(
        "open-webui",
        QUESTION,
        stream=True,
        stop=[],
        seed=0,
        top_k=0,
        min_p=0.0,
        frequency_penalty=0,
        mirostat=0,
    ),
    chat("llama-index", {**QUESTION, "content": [{"type": "text", "text": "hi"}]}, temperature=0.1),
    chat("vercel-ai", QUESTION, tool_choice="auto", tools=[TOOL], response_format=None, user=None),
    chat("semantic-kernel", temperature=1, top_p=1, n=1, stop=[], max_tokens=8.0),
    chat("autogen", {"role": "system", "content": ""}, QUESTION, functions=[], stop=""),
    chat("crewai", QUESTION, stop=["\nObservation:"], tools=None, tool_choice=None),
    chat("ollama", QUESTION, options={}, format="", think=False, keep_alive=None, raw=False),
    chat(
        "vllm",
        QUESTION,
        best_of=1,
        use_beam_search=False,
        top_k=-1,
        min_p=0.0,
        repetition_penalty=1.0,
        length_penalty=1.0,
        stop_token_ids=[],
        include_stop_str_in_output=False,
        ignore_eos=False,
        min_tokens=0,
        skip_special_tokens=True,
        spaces_between_special_tokens=True,
        truncate_prompt_tokens=None,
        prompt_logprobs=None,
        allowed_token_ids=None,
        bad_words=[],
        echo=False,
        add_generation_prompt=True,
        continue_final_message=False,
        documents=None,
        chat_template=None,
        chat_template_kwargs={},
        guided_json=None,
        guided_choice=None,
        priority=0,
        return_tokens_as_token_ids=None,
    ),
    chat("go-without-results", QUESTION, CALLED, {"role": "tool", "tool_call_id": "call_1"}),
    chat("glm", thinking={"type": "disabled"}, enable_thinking=False, models=[], n_predict=-1),
    chat("glm-thinks", thinking={"type": "enabled"}, refused="thinking"),
    chat("openrouter-thinks", reasoning={"enabled": True}, refused="reasoning"),
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
    chat("no-content", {"role": "user"}, refused="messages[0].content"),
    chat("no-parts", {"role": "user", "content": []}, refused="messages[0].content"),
    chat("user-thinks", {**QUESTION, "thinking": "dry"}, refused="messages[0].thinking"),
    chat("a-part-thinks", {**QUESTION, "content": [THOUGHT]}, refused="messages[0].content"),
    chat("user-refuses", {**QUESTION, "content": [REFUSAL]}, refused="messages[0].content"),
    chat("no-hint", {**QUESTION, "cache_control": 1}, refused="messages[0].cache_control"),
    chat("langchain-hints", {**QUESTION, "content": [HINTED]}, tools=[{**TOOL, **HINT}], **HINT),
    Sent("agents-image", {"input": [SHOWN]}, RESPONSE, refused="input[0].output[0].image_url"),
    Sent("openai-background", {"input": "hi", "background": True}, RESPONSE, "background"),
    Sent("openai-effort", {"input": "hi", "reasoning": {"effort": "low"}}, RESPONSE, "reasoning"),
    Sent("openai-suffix", {"prompt": "hi", "suffix": "!"}, TEXT, "suffix"),
    Sent("vllm-beams", {"prompt": "hi", "use_beam_search": True}, TEXT, "use_beam_search"),
)
