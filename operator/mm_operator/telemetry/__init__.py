"""What people and machines see of the running operator: metrics, health, logs.

Belongs here: the metric objects made from `mm_api.metrics`, the HTTP server of `/healthz`,
`/readyz` and `/metrics`, the JSON log format. Must not: know Kubernetes or decide anything.
"""
