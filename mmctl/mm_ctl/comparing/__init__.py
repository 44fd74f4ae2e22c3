"""The pod of `mmctl compare`, and its figures as text.

Belongs here: what is made of a model's Deployment, waiting for its end, the page. Must not: compare
anything: the runtime image does. May import: `documents`, `connection` and the operator's client.
"""
