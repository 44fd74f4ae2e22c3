"""The servers behind a gateway: Triton over gRPC, trtllm-serve over HTTP, one protocol.

Must not: know OpenAI's shapes beyond the reason why an answer ended, count, or admit.
"""
