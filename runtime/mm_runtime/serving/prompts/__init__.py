"""Text of a request and token ids: tokenizer, chat template, prompt writers, stop and bad words.

Belongs here: what the gateway needs as well, so that both sides of Triton read a checkpoint alike.
Must not: see pixels or samples, know Triton.
"""
