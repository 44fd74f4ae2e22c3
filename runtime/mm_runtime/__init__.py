"""What runs inside Jobs and pods: inspect, build, serve, gateway.

Belongs here: turning a plan into an engine and an engine into answers. Must not: import kopf or
mm_operator, or talk to the Kubernetes API. torch is imported only by build steps and the Reference engine.
"""
