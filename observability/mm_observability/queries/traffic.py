"""Requests, tokens and images."""

from mm_observability.queries.select import ALL, PANEL, per_model, rate, series


def requests(labels: str = ALL, *, window: str = PANEL) -> str:
    """Return finished requests per second by status."""
    return per_model(rate("mm_requests_total", labels, window=window), "code")


def failed_share(labels: str = ALL, *, window: str = PANEL) -> str:
    """Return the share of requests that ended with a server's error."""
    failed = per_model(rate("mm_requests_total", labels, 'code=~"5.."', window=window))
    every = per_model(rate("mm_requests_total", labels, window=window))
    # The status of a failure is a series from the first one on: until then none have failed.
    return f"({failed} or {every} * 0) / ({every} > 0)"


def rejected(labels: str = ALL, *, window: str = PANEL) -> str:
    """Return refused requests per second by reason."""
    return per_model(rate("mm_requests_rejected_total", labels, window=window), "reason")


def key_tokens(labels: str = ALL, *, window: str = PANEL) -> str:
    """Return tokens per second by the name of a client's token."""
    return per_model(rate("mm_key_tokens_total", labels, window=window), "key")


def key_requests(labels: str = ALL, *, window: str = PANEL) -> str:
    """Return requests per second by the name of a client's token."""
    return per_model(rate("mm_key_requests_total", labels, window=window), "key")


def key_rejected(labels: str = ALL, *, window: str = PANEL) -> str:
    """Return requests per second that were refused for the limits of their key."""
    return per_model(rate("mm_key_rejected_total", labels, window=window), "key", "reason")


def running(labels: str = ALL) -> str:
    """Return how many requests the pods work on."""
    return per_model(series("mm_requests_running", labels))


def waiting(labels: str = ALL) -> str:
    """Return how many requests wait in gateways."""
    return per_model(series("mm_requests_waiting", labels))


def output_tokens(labels: str = ALL) -> str:
    """Return generated tokens per second."""
    return per_model(rate("mm_output_tokens_total", labels))


def image_tokens(labels: str = ALL, *, window: str = PANEL) -> str:
    """Return prompt tokens per second that images became."""
    return per_model(rate("mm_image_tokens_total", labels, window=window))


def text_tokens(labels: str = ALL) -> str:
    """Return the other prompt tokens per second."""
    prompt = per_model(rate("mm_prompt_tokens_total", labels))
    return f"{prompt} - {image_tokens(labels)}"


def images(labels: str = ALL) -> str:
    """Return images per second."""
    return per_model(rate("mm_images_total", labels))
