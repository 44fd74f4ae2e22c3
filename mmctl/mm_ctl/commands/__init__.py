"""One module per command, each thin over the operator's `plan` and `cluster`.

A command module has `HELP`, `configure(parser)` and `run(options) -> exit code`; what it prints
is beside it (`plan_table`, `memory_bars`). Must not: decide what the operator decides.
"""
