"""The steps themselves: one module a step, run as `python -m` in a process of its own.

Belongs here: the work of one step from files to files. Must not: know other steps, the journal or
the lock. May import: torch and transformers, which no other part of the build may.
"""
