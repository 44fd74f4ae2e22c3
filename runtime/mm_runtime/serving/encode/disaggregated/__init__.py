"""Vision encoders in pods of their own, as a server beside the language model uses them.

Belongs here: which encoder gets an image, the gRPC client, what an answer must look like, and the
fall-back to the server's own encoder. Must not: encode, know how encoders are started. May import:
`mm_runtime.serving` (`encode.encoding`, `encode.vision`, `tensors`), tritonclient, grpc; never
torch.
"""
