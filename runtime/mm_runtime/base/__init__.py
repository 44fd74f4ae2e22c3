"""Ground floor: files that survive a kill, child processes, stop signals, documents from disk.

Belongs here: what several packages need and what knows no step of theirs: durable and arriving
files, files within a claim, an S3 client, the manifest's reading and verification, a child process,
SIGTERM, the termination message. Must not: know how an engine is built, stored or served. May
import: `mm_api`, `mm_runtime.errors`, the standard library, pydantic, obstore.
"""
