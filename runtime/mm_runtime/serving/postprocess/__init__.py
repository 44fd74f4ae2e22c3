"""The model `postprocessing`: tokens of one response to the text that they add.

Must not: import transformers or torch.
"""
