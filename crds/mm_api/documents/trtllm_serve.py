"""How TensorRT-LLM on PyTorch serves a staged checkpoint: one command and the file beside it.

The command is `trtllm-serve`, or `tritonserver` with TensorRT-LLM's model for its LLM API.

Part of `ModelPlan` (what `mmctl plan` prints) and of `ServingPlan` (what pods read): the two are
equal word for word. Paths are relative to a folder where `models/NAME` is the checkpoint; the last
part is the model name that the server reports.
"""

import re

from pydantic import Field, JsonValue

from mm_api.base import Document

TRITON_CONFIG = "triton_config"
"""Key of upstream's model.yaml beside the fields of LlmArgs."""

_SALTED = (1, 1)
_FORMS = _CALLS = (1, 2)
_PLACES_MEDIA = (1, 3)
_LAST_TEMPLATES = 10


class TrtllmServe(Document):
    """The server with its arguments, and the options that have no flag."""

    version: str = Field(description="Of TensorRT-LLM; the serving image must have it.")
    tensor_parallel: int = Field(default=1, ge=1)
    pipeline_parallel: int = Field(default=1, ge=1)
    checkpoint: str = Field(description="Where the command reads the checkpoint, `models/NAME`.")
    port: int = Field(ge=1, le=65535, description="Where the gateway reaches it, on loopback.")
    argv: list[str] = Field(min_length=1)
    options_file: str = Field(description="Name of the file that `argv` names.")
    options: dict[str, JsonValue] = Field(
        description="Its content: fields of upstream's LlmArgs; they win over flags."
    )

    @property
    def in_triton(self) -> bool:
        """Return whether the LLM runs inside of Triton."""
        return TRITON_CONFIG in self.options

    @property
    def takes_salt(self) -> bool:
        """Return whether a chat may have the field `cache_salt`, which keeps KV blocks apart."""
        return keeps_salts_apart(self.version)

    @property
    def keeps_calls(self) -> bool:
        """Return whether calls of tools in earlier messages reach the prompt.

        NVIDIA/TensorRT-LLM, pull request 8817: before, `tool_calls` and `tool_call_id` were dropped
        (tensorrt_llm/serve/chat_utils.py). The functions of `tools` are written by every version.
        """
        return _is_since(_CALLS, self.version)

    @property
    def takes_templates(self) -> bool:
        """Return whether a chat may have the field `chat_template`, which writes its prompt.

        The field is older than all versions that are planned for. From 1.3 on the server places
        media itself, message by message (NVIDIA/TensorRT-LLM, pull request 11461 of February 2026),
        and then refuses the field unless it is started with a flag (14646, of May 2026). Both are
        between candidates; 1.3.0rc10 of April (issue 12824) has the first and not the second.
        """
        if not _is_since(_PLACES_MEDIA, self.version.partition("rc")[0]):
            return True
        candidate = re.match(r"1\.3\.0rc(\d+)", self.version)
        return candidate is not None and int(candidate[1]) <= _LAST_TEMPLATES

    @property
    def ranks(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel


def keeps_salts_apart(version: str) -> bool:
    """Return whether trtllm-serve of a version knows `cache_salt`, which keeps KV blocks apart.

    Upstream's ChatCompletionRequest forbids fields it does not know, and knows this one since 1.1
    (NVIDIA/TensorRT-LLM, pull request 7106); of its release candidates not all do.
    """
    return _is_since(_SALTED, version)


FORMS_SINCE = "1.2"
"""The one floor of answers that are kept to a form, by trtllm-serve and by Triton's backend."""


def keeps_forms(version: str) -> bool:
    """Return whether forms of answers are sent to servers of a version.

    Before, a schema that the grammar library refuses ended the requests of everyone, the library
    was an older one for each version, and trtllm-serve had neither `regex` nor `ebnf`
    (NVIDIA/TensorRT-LLM, pull request 7925; not in all release candidates of 1.2).
    """
    return _is_since(_FORMS, version)


def _is_since(first: tuple[int, int], version: str) -> bool:
    release, candidate, _ = version.partition("rc")
    numbers = tuple(int(one) for one in re.findall(r"\d+", release)[:2])
    return numbers > first or (numbers == first and not candidate)
