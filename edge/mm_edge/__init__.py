"""The HTTP/1.1 edge that a gateway and the router share: what any server on an open port needs.

Belongs here: connections with deadlines and a bound on their number, strict parsing, bodies within
limits of size, time and memory, draining, tokens of clients and what each key may use, OpenAI's
error object. Must not: know models, requests'
meaning, Kubernetes or Triton. May import: `mm_api.gateway_memory`,
`mm_api.documents.serving_plan`, uvicorn, h11; opentelemetry where it is on.
"""
