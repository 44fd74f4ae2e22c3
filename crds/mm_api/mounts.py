"""Where Jobs and pods find the claims of a spec: each mount shows one claim, and nothing else."""

SOURCE_MOUNT = "/mnt/source"
"""The checkpoint's claim, or the one with the Hub's cache."""

STORE_MOUNT = "/mnt/store"
"""The engines' claim."""

ADAPTERS_MOUNT = "/mnt/adapters"
"""Folder with a mount for each claim of LoRA adapters."""
