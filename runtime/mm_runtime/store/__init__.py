"""Stores of built engines: a directory or a bucket, and what is done with them beside building.

Belongs here: listing, verifying, removing and copying complete engines. Must not: build, or decide
which engines are needed (the operator counts references). An engine counts from the moment its
manifest is there, which is written last; it is gone from the moment its manifest is. May
import: `mm_runtime.base`, `mm_runtime.sources.address`, `mm_runtime.engine_build`.
"""
