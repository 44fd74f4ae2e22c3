"""OpenAI's shapes: requests as they are read, completions and transcriptions as they are written.

Belongs here: wire types, parsing with errors that name the field, names of the served model. Must
not: wait, open a connection, decode media.
"""
