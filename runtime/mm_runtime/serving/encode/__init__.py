"""The model `multimodal_encoders`: pixel values to the features that the language model takes.

Belongs here: the batch queue, the vision engines (`vision`), encoders in pods of their own
(`disaggregated`), shares of cores and GPU, their metrics. Must not: read prompts or decode images.
"""
