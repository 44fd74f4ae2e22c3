"""What a node needs on the machine's side: a cgroup, an interface, mount points, an image store.

Rule: everything here is made by ``up``, named after the cluster, and removed by ``down``; each
module holds the making and the removing of one kind of thing side by side.
"""
