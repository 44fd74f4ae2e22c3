"""What both servers of TensorRT-LLM have in common: forms of answers, by xgrammar."""
