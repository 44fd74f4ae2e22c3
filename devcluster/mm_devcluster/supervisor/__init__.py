"""The first process of a cluster: it starts every part, restarts what dies, reaps what is left.

Rule: it gets everything it needs from one JSON file and inherited descriptors, so that it can run
as PID 1 of a node's namespaces, where little else can be reached.
"""
