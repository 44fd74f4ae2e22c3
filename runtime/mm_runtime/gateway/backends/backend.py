"""What the gateway needs to know of the backend behind it, besides answers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.serving.directory import EngineDirectory

if TYPE_CHECKING:  # numpy, templates and images: supervisors and builds need none of them
    from collections.abc import Sequence

    from mm_runtime.gateway.api.stated_form import StatedForm
    from mm_runtime.gateway.api.tool_dialects import ToolDialect
    from mm_runtime.gateway.api.tools import Function
    from mm_runtime.gateway.backends.engine import Form, ServedEngine, Servers


class Forms(Protocol):
    """Forms of answers as a server reads them; an InvalidRequestError: it keeps no such form."""

    def stated(self, stated: "StatedForm") -> "Form": ...

    def call(
        self, functions: "Sequence[Function]", dialect: "ToolDialect", *, several: bool
    ) -> "Form":
        """Return the form of an answer that calls one of some functions, or several in a row."""
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a server does and does not do by itself.

    Attributes:
        forms: of answers.
        writes_prompts: it is sent conversations and writes their prompts.
        wraps_questions: it writes the prompt around a text that no template has marked.
        isolates_salts: it keeps apart what requests of different salts leave; else they may send
            none, and it keeps nothing that they could share.
        calls_missing: why calls of earlier answers do not reach the prompt, and what to do, as a
            sentence; empty: they do.
        times_audio: it keeps the rules of time stamps, and returns the logits of a first token.
        cuts_audio: it cuts audio that is longer than a window.
        reads_files: it reads JPEG and PNG as Pillow, and resizes as the checkpoint's processor.
    """

    forms: Forms
    writes_prompts: bool = False
    wraps_questions: bool = True
    isolates_salts: bool = True
    calls_missing: str = ""
    times_audio: bool = False
    cuts_audio: bool = False
    reads_files: bool = False


class GatewayBackend(Protocol):
    """The gateway's part of a backend."""

    def capabilities(self, manifest: EngineManifest, serving: ServingPlan, /) -> Capabilities: ...

    def open_engine(
        self, directory: EngineDirectory, serving: ServingPlan, servers: "Servers", /
    ) -> "ServedEngine":
        """Return the client of the server; no request is sent yet.

        Raises:
            OSError, ValueError: a file of the engine is missing or unusable, or the server would
                drop a part of it.
        """
        ...
