"""Dashboards, recording rules and alerts as code; the chart ships what is generated from here.

Belongs here: PromQL, one function per query; panels that only arrange queries; rules with their
runbooks. May import `mm_api` and Grafana's SDK. Must not: read files or the clock, query
Prometheus, or write a metric's name that `mm_api.metrics` does not have.
"""
