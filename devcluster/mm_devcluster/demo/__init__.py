"""From nothing to right answers about images: what `make demo` does, stage by stage.

Rule: a stage is one function that reports what it waits for and says in its error what to do; what
runs beside what stands in one table (`stages`). Nothing here knows a cluster's insides: everything
goes through `mm_devcluster.cluster`, kubectl, Helm, mmctl and the official OpenAI client, as a
user's own work would.
"""
