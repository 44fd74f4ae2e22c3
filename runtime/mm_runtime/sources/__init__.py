"""Checkpoints wherever they lie: a directory, the Hugging Face Hub, an S3 bucket.

Belongs here: addresses, listing, ranged reads, downloads that go on where they stopped, and their
errors as sentences. Must not: know what a checkpoint means (inspect does), write into a store.
May import: `mm_runtime.errors`, `mm_runtime.buckets`, `mm_runtime.arriving`, `mm_runtime.build`
(source, durable). Secrets come from the environment and are never part of an address, an argument,
a message or a log line.
"""
