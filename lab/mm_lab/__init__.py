"""Loads endpoints and simulates fleets: `mm-lab`. No image holds it.

Belongs here: the load generator (`loadtest`), the simulator of autoscaling (`simulation`) and their
commands (`commands`). Must not: be imported by what users install or images hold. May import:
`mm_api`, `mm_operator`, `mm_ctl`.
"""
