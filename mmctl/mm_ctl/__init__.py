"""The command line for users: `mmctl`, also `kubectl mm`. No image holds it.

Belongs here: what a person runs on a machine of their own (`commands`), a checkpoint's way into a
claim (`uploading`). Must not: import kopf, or hold logic that the operator needs too. May import:
`mm_api`, `mm_operator`; of mm_runtime the inspection (`inspect`, `sources.identity`, `errors`).
"""
