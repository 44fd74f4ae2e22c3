"""Recording rules and alerts, as Prometheus' rule files hold them.

Belongs here: what is computed ahead of a question, and what wakes somebody. An alert names its
runbook in `docs/runbooks/`, says in words what is so, and has cases under
`tests/observability/rules/` in which it must and must not fire.
"""
