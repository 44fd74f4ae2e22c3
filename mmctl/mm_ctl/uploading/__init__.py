"""`mmctl upload`: the pod that mounts the claim, the stream into it, and the program at its end.

Belongs here: what crosses the connection, with its digests. Must not: read options or print.
`receiver` runs in the pod: standard library only, no import of ours.
"""
