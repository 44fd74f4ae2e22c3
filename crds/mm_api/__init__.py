"""The vocabulary that operator and runtime share, and the only place where they meet.

Belongs here: types of the custom resource, versioned documents exchanged on disk, condition types
and reasons, labels, metric names, families of models, what both must decide alike. Must not: do
I/O, read the clock, know kopf, torch or Triton. May import: pydantic and the
standard library's pure parts.
"""
