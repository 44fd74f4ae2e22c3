"""Metrics that Python models register with Triton, which takes counters and gauges only.

Must not: know what is counted (`encode`, `generate` do).
"""
