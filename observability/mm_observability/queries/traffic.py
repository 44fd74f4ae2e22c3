"""Requests, tokens and images."""

from mm_observability.queries.select import ALL, MODEL, PANEL, Sum, per_model, rate

requests = Sum("mm_requests_total", f"{MODEL}, code")


def failed_share(labels: str = ALL, *, window: str = PANEL) -> str:
    """Return the share of requests that ended with a server's error."""
    failed = per_model(rate("mm_requests_total", labels, 'code=~"5.."', window=window))
    every = per_model(rate("mm_requests_total", labels, window=window))
    # The status of a failure is a series from the first one on: until then none have failed.
    return f"({failed} or {every} * 0) / ({every} > 0)"


rejected = Sum("mm_requests_rejected_total", f"{MODEL}, reason")
key_tokens = Sum("mm_key_tokens_total", f"{MODEL}, key")
key_requests = Sum("mm_key_requests_total", f"{MODEL}, key")
key_rejected = Sum("mm_key_rejected_total", f"{MODEL}, key, reason")
running = Sum("mm_requests_running")
waiting = Sum("mm_requests_waiting")
output_tokens = Sum("mm_output_tokens_total")
image_tokens = Sum("mm_image_tokens_total")


def text_tokens(labels: str = ALL) -> str:
    prompt = per_model(rate("mm_prompt_tokens_total", labels))
    return f"{prompt} - {image_tokens(labels)}"
