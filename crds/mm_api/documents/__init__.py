"""Versioned documents exchanged between operator, Jobs and pods.

Belongs here: one file per document, its format version and what each field means. Must not: read or
write files (the edges do), compute plans. May import: `mm_api.base` and pydantic.
"""
