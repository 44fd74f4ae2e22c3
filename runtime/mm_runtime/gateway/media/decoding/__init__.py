"""Files of users are decoded in processes of their own, which end where a limit is reached.

Belongs here: what a decoder's process does (`jobs`, `worker`), how it is spoken to (`wire`), and
the few that one gateway keeps (`pool`). Must not: know requests, prompts or statuses. A thread
cannot be ended; a process can, and takes a decoder's defects with it.
"""
