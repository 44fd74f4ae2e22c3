"""Audio of a request: its spectrogram, the prefix of its transcription, and tones for self-tests.

Must not: decode files of users (the gateway does), import torch.
"""
