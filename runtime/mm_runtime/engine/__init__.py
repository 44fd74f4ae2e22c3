"""What happens to one request inside the server: text and pictures in, tokens and text out.

Belongs here: prompts, image preprocessing, the vision encoder, the Reference language-model engine,
detokenization; each importable and tested without a server. Must not: know HTTP, Kubernetes or how
the server is started. May import: mm_api, mm_runtime.pictures, numpy, Pillow, tokenizers;
onnxruntime in `vision`; tritonclient in `encoders`; torch and transformers in `reference`, torch in
`vision.torch_runner`, so that other processes stay small.
"""
