"""Dashboards as data; the chart ships what is generated from here, beside its rule file.

May import `mm_api` and Grafana's SDK. Must not: read the clock, query Prometheus, or write a
metric's name that `mm_api.metrics` does not have.
"""
