"""Conversations to the prompt that the model was trained on, with places for media.

Must not: tokenize differently than `mm_runtime.serving.prompts`, which the engine uses.
"""
