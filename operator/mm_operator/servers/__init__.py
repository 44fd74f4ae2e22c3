"""What running servers know of themselves and their pods' status cannot say; pulled, not pushed.

Belongs here: which pods to query (`pods`, pure) and the rounds that query them (`rounds`). Must
not: decide what the answers mean for a model, which is `mm_operator.status`'s, or read Prometheus,
which a model without autoscaling need not have. May import: `mm_api`, `mm_operator.cluster`.
"""
