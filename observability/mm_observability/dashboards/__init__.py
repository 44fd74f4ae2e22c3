"""Dashboards: which query is where, with which unit and colour.

Belongs here: arrangement only; PromQL is `mm_observability.queries`'s. `render` alone knows
Grafana's types.
"""
