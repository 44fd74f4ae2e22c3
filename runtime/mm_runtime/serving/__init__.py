"""What happens to one request inside Triton: prompt and images in, tokens and text out.

Packages follow the data and Triton's models: `prompts`, `preprocess`, `encode`, `generate`, `send`,
`postprocess`; `bls` runs the steps as one model. Each is importable and tested without a server.
Must not: know HTTP, Kubernetes or how the server is started, import torch (but
`encode.vision.torch_runner`). May import: mm_api, mm_runtime.base, mm_runtime.images, numpy,
Pillow, tokenizers; onnxruntime in `encode.vision`; tritonclient in `messages`.
"""
