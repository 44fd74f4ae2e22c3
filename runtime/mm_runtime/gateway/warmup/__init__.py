"""Before a pod is ready: requests at the limits of its plan, a real question, what a request costs.

Must not: answer clients. Runs through the same dataplane as their requests.
"""
