"""Starts, watches and ends processes; above all the server of an engine, which it is given.

Belongs here: the argument vector and environment of tritonserver (`arguments`, pure), restarts
(`restarts`, pure), health, drain, the metrics port, tritonserver's own way (`tritonserver`), the
MPS daemon beside the server. Must not: know tensors or plans beyond the limits it passes on. May
import: `mm_api`, `mm_runtime.base`, `mm_runtime.repository`, `mm_runtime.errors`,
`mm_runtime.settings`, prometheus_client, the standard library.
"""
