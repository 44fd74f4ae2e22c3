"""A real Kubernetes on this machine, for development, tests and the demo.

Belongs here: building, starting and stopping the cluster, its images, and the demo on top. Must not:
be needed in production; nothing else imports it.
"""
