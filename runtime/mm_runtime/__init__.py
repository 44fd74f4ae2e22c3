"""What runs next to a model: inspect a checkpoint, build its engine, serve it, answer for it.

Belongs here: the commands of the one runtime image (`mm-runtime inspect|build|serve|gateway`).
Must not: know kopf, the Kubernetes API or `mm_operator`. May import: `mm_api`; torch only inside
the step scripts of `engine_build.commands` and `reference_engine`, so that every
other command starts in milliseconds and fits in little memory.
"""
