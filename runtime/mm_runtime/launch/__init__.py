"""Starts, watches and ends processes; above all the real tritonserver.

Belongs here: the argument vector and environment of tritonserver (`arguments`, pure), ownership of
a child process (`process`, which the build's steps share), health, drain. Must not: know tensors or
plans beyond the limits it passes on. May import: `mm_api`, `mm_runtime.repository`, the manifest's
verification, the standard library.
"""
