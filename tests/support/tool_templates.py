"""Chat templates with tools, as families of open models write them, cut to what tests look at."""

_TURNS = (
    "{%- for message in messages %}"
    "{%- if message.role == 'assistant' and message.tool_calls %}CALLS"
    "{%- elif message.role == 'tool' %}ANSWER"
    "{%- else %}OTHER"
    "{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}GENERATION{%- endif %}"
)


def _template(tools: str, **parts: str) -> str:
    text = _TURNS
    for name, part in parts.items():
        text = text.replace(name.upper(), part)
    return "{{- bos_token }}" + tools + text


HERMES = _template(
    "{{- style }}{%- if tools %}# Tools\n"
    "{%- for tool in tools %}\n{{ tool | tojson }}{%- endfor %}\n{%- endif %}",
    calls=(
        "{{- 'assistant\n' + (message.content or '') }}"
        "{%- for tool_call in message.tool_calls %}{%- set tool_call = tool_call.function %}"
        '{{- \'\n<tool_call>\n{"name": "\' + tool_call.name + \'", "arguments": \' }}'
        "{{- tool_call.arguments | tojson }}{{- '}\n</tool_call>' }}{%- endfor %}{{- '\n' }}"
    ),
    answer="{{- 'user\n<tool_response>\n' + message.content + '\n</tool_response>\n' }}",
    other="{{- message.role + '\n' + message.content + '\n' }}",
    generation="{{- 'assistant\n' }}",
)
"""As Qwen 2.5 and Hermes."""

MISTRAL = _template(
    "{%- if tools %}[AVAILABLE_TOOLS] {{ tools | map(attribute='function') | list | tojson }}"
    "[/AVAILABLE_TOOLS]{%- endif %}",
    calls=(
        "{{- '[TOOL_CALLS] [' }}{%- for tool_call in message.tool_calls %}"
        "{%- if tool_call.id | length != 9 %}"
        "{{- raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}"
        "{%- endif %}"
        '{{- \'{"name": "\' + tool_call.function.name + \'", "arguments": \' '
        "+ (tool_call.function.arguments | tojson) + ', \"id\": \"' + tool_call.id + '\"}' }}"
        "{%- if not loop.last %}{{- ', ' }}{%- endif %}{%- endfor %}{{- ']' + eos_token }}"
    ),
    answer=(
        '{{- \'[TOOL_RESULTS] {"content": \' + message.content | string + \', "call_id": "\' '
        "+ message.tool_call_id + '\"}[/TOOL_RESULTS]' }}"
    ),
    other="{%- if message.role == 'assistant' %}{{- message.content + eos_token }}"
    "{%- else %}{{- '[INST] ' + message.content + '[/INST]' }}{%- endif %}",
    generation="",
)
"""As Mistral's version 3."""

LLAMA = _template(
    "{%- if tools %}"
    "{%- for tool in tools %}{{ tool | tojson(indent=4) }}\n{%- endfor %}{%- endif %}",
    calls=(
        "{%- if message.tool_calls | length != 1 %}"
        "{{- raise_exception('This model only supports single tool-calls at once!') }}{%- endif %}"
        "{%- set tool_call = message.tool_calls[0].function %}"
        "{{- 'assistant\n' + '{\"name\": \"' + tool_call.name + '\", \"parameters\": ' }}"
        "{{- tool_call.arguments | tojson }}{{- '}\n' }}"
    ),
    answer="{{- 'ipython\n' + message.content + '\n' }}",
    other="{{- message.role + '\n' + message.content + '\n' }}",
    generation="{{- 'assistant\n' }}",
)
"""As Llama 3.1's."""
