"""The OpenAI-compatible front of one model: HTTP on one side, the pod's server on the other.

Belongs here: wire types, limits, prompts, admission, streaming, gateway metrics.
`dataplane` is transport neutral; only `http` and its neighbours know ASGI, only `triton` knows
gRPC, only `trtllm_serve` the other server, only `errors` knows HTTP status codes. Must not: import
torch or transformers, read the engine's weights, or put what users wrote into metrics or logs.
May import: mm_api, the tokenizer and image sizes of mm_runtime.serving (both sides of Triton read a
checkpoint alike), mm_runtime.pictures, starlette, uvicorn, Pillow, numpy, jinja2, tritonclient,
httpx.
"""
