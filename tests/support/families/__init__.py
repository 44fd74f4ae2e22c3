"""Checkpoints of every family with random weights, of the real transformers classes."""
