"""ASGI: routes, one exchange from first to last byte, bodies, connections with deadlines.

Must not: decide what a request means or whether it is accepted.
"""
