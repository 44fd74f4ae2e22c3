"""With a token file, only its tokens are let in; health and metrics stay open."""

from pathlib import Path

from support.cases import cases
from support.gateways import MODEL, client_of, toy_gateway
from support.scripted_engine import ScriptedEngine

QUESTION = {"model": MODEL, "messages": [{"role": "user", "content": "what is it ?"}]}


@cases(
    "header status code",
    {
        "no-header": (None, 401, "missing_api_key"),
        "other-scheme": ("Basic b25l", 401, "missing_api_key"),
        "empty": ("Bearer", 401, "missing_api_key"),
        "wrong": ("Bearer three", 401, "invalid_api_key"),
        "first-line": ("Bearer one", 200, None),
        "second-line": ("bearer two", 200, None),
    },
)
async def test_a_token_decides(
    tmp_path: Path, header: str | None, status: int, code: str | None
) -> None:
    """Wrong or missing tokens are 401 with the scheme named, as OpenAI's error object."""
    tokens = tmp_path / "token"
    tokens.write_text("one\ntwo\n")
    gateway = toy_gateway(tmp_path / "engine", ScriptedEngine(), auth_token_file=tokens)
    headers = {} if header is None else {"Authorization": header}
    async with client_of(gateway) as client:
        for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models")):
            response = await client.request(method, path, json=QUESTION, headers=headers)
            assert status == response.status_code
            if code is not None:
                assert response.headers["www-authenticate"] == "Bearer"
                assert response.json()["error"]["code"] == code
        assert (await client.get("/healthz")).status_code == 200
