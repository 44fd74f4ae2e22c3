"""TensorRT-LLM's engines behind its own backend of Triton."""
