"""The configuration of every part of the cluster, as text and argument lists.

Rule: computed from values only, no I/O; every setting that is not a default has its reason.
"""
