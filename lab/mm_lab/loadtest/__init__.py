"""`mm-lab bench`: sends requests to an OpenAI endpoint at a chosen rate and reports how it kept up.

Belongs here: when to send (`arrivals`, `trace`), what to send (`mix`, `image`), sending
(`client`, `drive`), what it meant (`results`, `report`, `table`). Must not: know Kubernetes, or
retry: a request that failed is a result.
"""
