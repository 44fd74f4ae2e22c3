"""Whether a request is accepted: places, memory of bodies, context length, drain.

Must not: know HTTP, read a body, decode media. Refusals are those of `mm_edge.errors`.
"""
