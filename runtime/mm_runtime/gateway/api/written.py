"""Fields of requests whose conversation the chat template writes."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from mm_runtime.gateway.api.tools import Tools
from mm_runtime.gateway.api.wire import JsonObject, Wire

MAX_VARIABLES = 32
_OWN_VARIABLES = frozenset(
    {
        *("messages", "tools", "add_generation_prompt", "continue_final_message"),
        *("bos_token", "eos_token", "pad_token", "unk_token", "chat_template", "raise_exception"),
    }
)


def _check_names(variables: dict[str, Any]) -> dict[str, Any]:
    if taken := sorted(_OWN_VARIABLES & set(variables)):
        message = f"`{taken[0]}` is set by the server"
        raise ValueError(message)
    return variables


class WrittenRequest(Wire):
    """What the template is given besides the messages."""

    chat_template_kwargs: (
        Annotated[
            JsonObject,
            Field(
                max_length=MAX_VARIABLES,
                json_schema_extra={"propertyNames": {"not": {"enum": sorted(_OWN_VARIABLES)}}},
            ),
            AfterValidator(_check_names),
        ]
        | None
    ) = None
    tools: Tools | None = None
