"""How an address becomes a part of a URL: the one place that writes IPv6 into brackets."""


def bracketed(host: str) -> str:
    """Return a host as a URL has it: a name and an IPv4 address as they are."""
    return f"[{host}]" if ":" in host else host


def host_port(host: str, port: int | str) -> str:
    """Return HOST:PORT, as URLs and gRPC targets have it."""
    return f"{bracketed(host)}:{port}"
