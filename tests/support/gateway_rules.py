"""Rules of `spec.gateway`, each with fields that keep it and fields that break it.

The values of `model_documents.RuleExample`, but for the parts above the gateway.
"""

from collections.abc import Mapping
from typing import Any

_TOKENS = {"authSecretRef": {"name": "tokens"}}

GATEWAY_RULES: tuple[tuple[str, str, str, Mapping[str, Any], Mapping[str, Any]], ...] = (
    (
        "a-key-has-one-entry",
        "keyLimits",
        "each key may have one entry",
        {**_TOKENS, "keyLimits": [{"name": "a"}, {"name": "*"}]},
        {**_TOKENS, "keyLimits": [{"name": "a"}, {"name": "a"}]},
    ),
    (
        "limits-of-keys-need-keys",
        "keyLimits",
        "keyLimits need authSecretRef",
        {**_TOKENS, "keyLimits": [{"name": "a"}]},
        {"keyLimits": [{"name": "a"}]},
    ),
    (
        "comments-are-not-a-flood",
        "streamKeepAlive",
        "streamKeepAlive must be at least 1s",
        {"streamKeepAlive": "1s"},
        {"streamKeepAlive": "999ms"},
    ),
    (
        "host-may-be-public",
        "allowedHosts",
        "allowedHosts has a host that is never fetched from",
        {"allowedHosts": ["images.example.org", "8.8.8.8"]},
        {"allowedHosts": ["169.254.169.254"]},
    ),
    (
        "address-has-one-notation",
        "allowedHosts",
        "allowedHosts has an address that is not written as four numbers",
        {"allowedHosts": ["8.8.8.8"]},
        {"allowedHosts": ["0x7f.1"], "allowPrivateNetworks": True},
    ),
    (
        "images-have-bytes",
        "maxImageBytes",
        "maxImageBytes must be above zero",
        {"maxImageBytes": "1Ki"},
        {"maxImageBytes": 0},
    ),
    (
        "fetching-is-part-of-the-request",
        "fetchTimeout",
        "fetchTimeout must not be above requestTimeout",
        {"fetchTimeout": "10s", "requestTimeout": "10s"},
        {"fetchTimeout": "10s1ms", "requestTimeout": "10s"},
    ),
)
