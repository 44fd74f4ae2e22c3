"""Checkpoints wherever they lie: a directory, the Hugging Face Hub, an S3 bucket, an archive.

Belongs here: addresses, listing, ranged reads, downloads that continue where they stopped, the
identity of a checkpoint, and errors as messages. Must not: know what a checkpoint means (inspect
does), write into a store. May import: `mm_runtime.base`, `mm_runtime.errors`. Secrets come from the
environment and are never part of an address, an argument, a message or a log line.
"""
