"""A real Kubernetes on one machine, for the demo and for tests.

Rule: this package builds, starts, feeds and stops a cluster; nothing in production imports it.
What is decided (addresses, flags, configuration, certificates) is computed by functions without
I/O; the processes, mounts and interfaces they describe are made in a few named places. Nothing
that it starts may outlive ``down``.
"""
