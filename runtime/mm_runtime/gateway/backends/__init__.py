"""The servers behind a gateway, one protocol: Triton; others are in `mm_runtime.backends`.

Must not: know OpenAI's shapes beyond the reason why an answer ended, count, or admit.
"""
