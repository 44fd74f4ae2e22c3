"""TensorRT-LLM on PyTorch: checkpoints that trtllm-serve loads itself."""
