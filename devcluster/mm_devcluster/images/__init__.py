"""Container images without a registry: written as OCI archives, loaded straight into the node.

Rule: an image is described by values (layers, configuration) and its bytes are reproducible: the
same input gives the same digests, so that what the node already holds is never loaded again.
"""
