"""Which replica may write: leader election with a coordination.k8s.io Lease.

Belongs here: the record and the decisions on it (pure), the loop that keeps or awaits the Lease.
Must not: know what the leader does. The API calls come in as a `LeaseApi`.
"""
