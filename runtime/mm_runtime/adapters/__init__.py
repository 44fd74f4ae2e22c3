"""LoRA adapters: their files, what they change, and why an engine cannot apply one.

Belongs here: copying an adapter from any source, its configuration and tensor names, the facts that
inspection reports. Must not: import torch, or apply an adapter (the engines do). May import:
`mm_api`, `mm_runtime.base`, `mm_runtime.errors`, `mm_runtime.sources`, and of `mm_runtime.inspect`
the headers of weights.
"""
