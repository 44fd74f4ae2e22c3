"""`mmctl upload`: the pod that mounts the claim, and the stream into it.

Belongs here: what crosses the connection, with its digests. Must not: read options or print.
"""
