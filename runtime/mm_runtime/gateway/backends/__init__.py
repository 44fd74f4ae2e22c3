"""What a gateway needs of the server behind it; the servers are in `mm_runtime.backends`.

Must not: know OpenAI's shapes beyond the reason why an answer ended, count, or admit.
"""
