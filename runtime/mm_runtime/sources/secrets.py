"""PURE: which environment variables are secrets of sources and stores."""

NAMES = ("HF_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
PREFIXES = ("", "MM_SOURCE_", "MM_STORE_")

_SECRETS = frozenset(prefix + name for prefix in PREFIXES for name in NAMES)


def is_secret(name: str) -> bool:
    """Return whether a variable holds a token or a key, not to be handed to tools."""
    return name in _SECRETS
