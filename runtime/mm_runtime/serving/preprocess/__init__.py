"""The model `preprocessing`: a prompt with its images or its audio to token ids and tensors.

Belongs here: reading images of a request, `processors` of each family, `audio`. Must not: run a
vision engine (`encode` does), import torch.
"""
