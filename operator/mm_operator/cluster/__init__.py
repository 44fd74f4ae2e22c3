"""The edge to the API server: everything that reads from it or writes to it.

Belongs here: the client, watch streams and their caches, server-side apply, pruning, status and
event writes. Must not: decide what should exist (`mm_operator.plan`,
`mm_operator.children`), know kopf. May import: `kubernetes.aio`, the pure packages, `mm_api`.
"""
