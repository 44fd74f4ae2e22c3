"""`mm-runtime compare`: a served model against transformers in float32, by the same requests.

Belongs here: the requests, the checkpoint's answers to them, the client, the figures. Must not:
talk to the Kubernetes API; `mmctl compare` runs it in a pod and records what it prints. May
import: `gateway`, `engine_build` and what is below them.
"""
