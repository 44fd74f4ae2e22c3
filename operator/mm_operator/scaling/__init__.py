"""The autoscaler's edge: reads Prometheus and pods, runs the policy, moves replicas, records why.

Belongs here: the Prometheus client, the queries and what their answers mean, cold starts as pods
show them, the tick loop. Must not: decide how many replicas (`mm_operator.autoscaling` does), write
status (the reconcile does, from `Scaler.view`). Pure modules: `answers`, `cold_starts`,
`latencies`, `movers`, `objectives`, `pods`, `queries`, `traffic`, `view`.
"""
