"""Images as a request brings them: which addresses may be fetched from, fetching, decoding.

Belongs here: the policy for URLs and addresses, one fetch under its limits, data URLs, bytes to
upright RGB. Both sides of Triton use it, so that the gateway and Triton's own models refuse alike.
Must not: know requests, statuses or prompts. May import: mm_api.contract and hosts,
httpcore, certifi, pybase64, Pillow, simplejpeg, numpy.
"""
