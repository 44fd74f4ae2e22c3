"""Names inside the exported vision model: what writes it, checks it and runs it agrees on these."""

MODEL_NAME = "model.onnx"
INPUT_NAME = "pixel_values"
"""float32[batch, 3, side, side], normalised."""

OUTPUT_NAME = "features"
"""float32[batch, features per image, hidden size of the language model]."""
