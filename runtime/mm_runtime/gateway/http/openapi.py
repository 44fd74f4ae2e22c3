"""PURE: the OpenAPI document of the gateway, from the types that requests are read with."""

from collections.abc import Collection, Mapping
from functools import cache

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from mm_runtime.gateway.api.audio import (
    TRANSCRIBE,
    TRANSLATE,
    TranscriptionRequest,
    TranslationRequest,
)
from mm_runtime.gateway.api.openai import ChatRequest, CompletionRequest
from mm_runtime.gateway.api.responses import ResponsesRequest

_BODIES: dict[str, tuple[type[BaseModel], str, str]] = {
    "/v1/chat/completions": (ChatRequest, "application/json", "Answer a conversation."),
    "/v1/completions": (CompletionRequest, "application/json", "Continue a text."),
    "/v1/responses": (ResponsesRequest, "application/json", "Answer a conversation."),
    "/v1/audio/transcriptions": (
        TranscriptionRequest,
        "multipart/form-data",
        "Transcribe audio.",
    ),
    "/v1/audio/translations": (
        TranslationRequest,
        "multipart/form-data",
        "Translate audio into English.",
    ),
}
_REFERENCE = "#/components/schemas/{model}"

_ERROR: dict[str, object] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}


def refused_paths(*, chats: bool, continues: bool, tasks: Collection[str]) -> frozenset[str]:
    """Return the paths that a model does not serve, whatever a request holds."""
    served = {
        "/v1/chat/completions": chats,
        "/v1/completions": continues,
        "/v1/responses": chats,
        "/v1/audio/transcriptions": TRANSCRIBE in tasks,
        "/v1/audio/translations": TRANSLATE in tasks,
    }
    return frozenset(path for path, is_served in served.items() if not is_served)


@cache
def openapi_document(model: str, refused: frozenset[str] = frozenset()) -> Mapping[str, object]:
    """Return the document without refused paths; it takes a sixth of a second of a core."""
    served = {path: one for path, one in _BODIES.items() if path not in refused}
    kinds = [kind for kind, _, _ in served.values()]
    _, schemas = models_json_schema(
        [(kind, "validation") for kind in kinds], ref_template=_REFERENCE
    )
    paths: dict[str, object] = {
        path: {
            "post": {
                "summary": summary,
                "requestBody": {
                    "required": True,
                    "content": {media: {"schema": _named(kind.__name__)}},
                },
                "responses": _responses(),
            }
        }
        for path, (kind, media, summary) in served.items()
    }
    paths["/v1/models"] = {"get": {"summary": "List the models.", "responses": _responses()}}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"{model}: OpenAI-compatible API", "version": "1"},
        "paths": paths,
        "components": {"schemas": {**schemas.get("$defs", {}), "Error": _ERROR}},
    }


def _named(name: str) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(model=name)}


def _responses() -> dict[str, object]:
    error = {"content": {"application/json": {"schema": _named("Error")}}}
    return {
        "200": {"description": "The answer."},
        "default": {"description": "An error, as OpenAI writes it.", **error},
    }
