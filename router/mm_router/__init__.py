"""One address for all models: requests go to the replica that knows their images and prefix.

Belongs here: which model a request names, which replica answers, when another one is tried, and the
proxy between. Must not: decode media, write prompts, write to the Kubernetes API, keep tokens of
clients. May import: mm_api, mm_edge, of mm_operator the client, the reflector, resources and errors
of the Kubernetes API; aiohttp, orjson, python-multipart, prometheus-client. `catalog`, `reading`,
`placement` and `ejection` decide and do no I/O.
"""
