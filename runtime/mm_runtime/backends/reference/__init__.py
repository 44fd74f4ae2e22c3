"""The Reference engine: the checkpoint behind models of Triton's Python backend."""
