"""The machinery around one `reconcile(key)`: queue, back-off, workers, safety net.

Belongs here: when and how often a key is reconciled. Must not: know what a reconcile does, nor talk
to the API server.
"""
