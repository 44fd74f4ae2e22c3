"""Names inside the exported vision model: what writes it, checks it and runs it agrees on these."""

MODEL_NAME = "model.onnx"
OUTPUT_NAME = "features"
"""float32[batch, rows, hidden size of the language model]."""

EXTRAS_NAME = "extras.npz"
"""Vectors beside the graph, where a family needs some."""
