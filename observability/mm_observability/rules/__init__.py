"""Recording rules and alerts, as Prometheus' rule files hold them.

Belongs here: what is computed ahead of queries, and what notifies. An alert names its
runbook in `docs/runbooks/`, states the problem, and has cases under
`tests/mm_observability/rules/` in which it must and must not fire.
"""
