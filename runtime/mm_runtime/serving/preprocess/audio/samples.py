"""Samples as audio models read them. Imports nothing: decoders of files start with it."""

from typing import Final

SAMPLE_RATE: Final = 16_000
"""Samples a second; every Whisper was trained at this rate."""

FULL_SCALE: Final = 2**15
"""What a sample of sixteen bits is divided by."""
