"""The OpenAI-compatible front of one model: HTTP on one side, the pod's server on the other.

`http` reads and answers; `preparation`, which makes of a request what an engine takes, and
`dataplane` are transport neutral; `api` holds OpenAI's shapes, `admission` what is accepted,
`media` and `prompts` what a request becomes, `backends` what the server behind must answer, and
`warmup` what is requested before a pod is ready. Only `http` knows ASGI, only `errors` HTTP status
codes. Must not: import torch or transformers, read the engine's weights, put what users wrote into
metrics or logs, or compare backends: their clients are in `mm_runtime.backends`. May import:
mm_api, the tokenizer and image sizes of mm_runtime.serving (both sides of Triton read a checkpoint
alike), mm_runtime.images, starlette, uvicorn, uvloop, Pillow, numpy, jinja2.
"""
