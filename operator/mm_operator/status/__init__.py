"""What people and programs read of a model: conditions, summaries, events.

Belongs here: the one condition setter, the status from snapshot, plan and outcome, the Events
between two statuses. Must not: decide, do I/O, read the clock; texts hold no times and no generated
names. May import: `mm_api`, `mm_operator.model`, `mm_operator.plan` (names, records, pool sizes).
"""
