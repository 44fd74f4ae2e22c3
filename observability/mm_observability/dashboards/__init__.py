"""Dashboards: which query is where, with which unit and colour, in a YAML file each.

`dashboard` reads them; `render` alone knows Grafana's types.
"""
