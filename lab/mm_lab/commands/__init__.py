"""The commands of `mm-lab`, a module each: its options, and what it prints.

Must not: hold what benches import; that is in `loadtest` and `simulation`.
"""
