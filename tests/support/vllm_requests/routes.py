"""Rows of tokens, models, the server's own routes, and what only other servers have."""

from support.vllm_requests.table import TRANSLATION, Refused, Row

_SERVE = "entrypoints/serve/instrumentator/"
TOKENS = ("entrypoints/openai/test_tokenization.py",)
MODELS = ("entrypoints/openai/models/test_models.py",)
BASIC = (f"{_SERVE}test_basic.py",)
METRICS = (f"{_SERVE}test_metrics.py",)
INVOKED = ("entrypoints/openai/chat_completion/test_chat.py",)
FORM = (
    b'--part\r\nContent-Disposition: form-data; name="model"\r\n\r\ntiny\r\n'
    b'--part\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF\r\n'
    b"--part--\r\n"
)
"""Of a transcription, or of a translation."""
PROBES = "`/healthz` and `/readyz`, as Kubernetes calls them"


def _there(path: str, sets: tuple[str, ...], reason: str, method: str = "GET") -> Row:
    return Row(sets, path, f"{method} {path}", Refused(None, 404), method=method, differs=reason)


ROWS = (
    Row(
        TOKENS,
        "/tokenize",
        "tokens of a text",
        Refused(None, code="unsupported_endpoint", says="tokenizer"),
        {"model": "tiny", "prompt": "Hi"},
        differs="the checkpoint's tokenizer counts them",
    ),
    Row(
        TOKENS,
        "/detokenize",
        "text of tokens",
        Refused(None, code="unsupported_endpoint", says="tokenizer"),
        {"model": "tiny", "tokens": [1]},
        differs="the checkpoint's tokenizer has it",
    ),
    _there("/tokenizer_info", TOKENS, "the tokenizer's files are the checkpoint's"),
    Row(
        MODELS,
        "/v1/models",
        "the list of models",
        lambda answer: [one["id"] for one in answer["data"]] == ["tiny"],
        method="GET",
    ),
    Row(
        MODELS,
        "/v1/models/tiny",
        "one model",
        lambda answer: answer["id"] == "tiny" and answer["object"] == "model",
        method="GET",
    ),
    Row(
        MODELS,
        "/v1/models/other",
        "a model that is not there",
        Refused("model", 404, "model_not_found"),
        method="GET",
    ),
    _there("/health", BASIC, PROBES),
    _there("/ping", ("entrypoints/serve/sagemaker/test_sagemaker_handler_overrides.py",), PROBES),
    _there("/version", BASIC, "no version of the server is shown to clients"),
    _there("/load", BASIC, "`mm_requests_running` of `/metrics`"),
    _there(
        "/invocations", INVOKED, "SageMaker's path; the body names its endpoint by its path", "POST"
    ),
    _there(
        "/v1/messages",
        ("entrypoints/anthropic/test_messages.py",),
        "OpenAI's API is the only one",
        "POST",
    ),
    Row(
        ("entrypoints/openai/embedding_tests/test_embedding.py",),
        "/v1/embeddings",
        "embeddings",
        Refused(None, code="unsupported_endpoint"),
        {"model": "tiny", "input": "Hi"},
        differs="no model here makes embeddings",
    ),
    Row(
        METRICS,
        "/metrics",
        "metrics in Prometheus' format",
        lambda answer: "mm_requests_running" in answer,
        method="GET",
    ),
    Row(
        BASIC,
        "/openapi.json",
        "the API's description",
        lambda answer: "/v1/chat/completions" in answer["paths"],
        method="GET",
    ),
    Row(
        ("entrypoints/speech_to_text/translation/test_translation_validation.py",),
        TRANSLATION,
        "a translation by a model without audio",
        Refused("file", code="unsupported_endpoint"),
        raw=FORM,
        headers={"content-type": "multipart/form-data; boundary=part"},
        differs="with the paths to use; there 404",
    ),
)
"""All of them."""
