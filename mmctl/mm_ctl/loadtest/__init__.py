"""`mmctl bench`: asks an OpenAI endpoint questions at a chosen pace and tells how it kept up.

Belongs here: when to send (`arrivals`, `trace`), what to send (`mix`, `picture`), sending
(`client`, `drive`), what it meant (`results`, `report`, `table`). Must not: know Kubernetes, or
retry: a request that failed is a result.
"""
