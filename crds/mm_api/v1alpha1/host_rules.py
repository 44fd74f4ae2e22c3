"""Which hosts `spec.gateway.allowedHosts` may name: those that the gateway may fetch from."""

from typing import Final

from mm_api.public_hosts import ENDS_IN_A_NUMBER, IPV4, NEVER_PUBLIC, PRIVATE_DOMAINS
from mm_api.v1alpha1.rule import Rule

HOST_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        cel=f"self.allowedHosts.all(host, !host.matches('{ENDS_IN_A_NUMBER}') || "
        f"host.matches('{IPV4}'))",
        message="allowedHosts has an address that is not written as four numbers from 0 to "
        "255, which programs read differently: write it so, for example 8.8.8.8",
        field="allowedHosts",
    ),
    Rule(
        cel=f"self.allowPrivateNetworks || "
        f"!self.allowedHosts.exists(host, host.matches('{NEVER_PUBLIC}'))",
        message="allowedHosts has a host that is never fetched from: private, loopback, "
        "link-local and metadata addresses, names without a dot, and names below "
        f"{', '.join(sorted(PRIVATE_DOMAINS))}. Remove it, or set allowPrivateNetworks",
        field="allowedHosts",
    ),
)
