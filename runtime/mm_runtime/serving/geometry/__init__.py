"""PURE: where tiles, patches and positions of an image are; `preprocess` and `encode` share it.

Must not: touch pixels or features beyond their shapes, do I/O.
"""
