"""`spec.network`: what stands between a model's pods and the servers that they read from."""

from typing import Annotated, Literal

from pydantic import Field

from mm_api.base import ApiModel
from mm_api.v1alpha1.names import ObjectName

ProxyUrl = Annotated[str, Field(pattern=r"^https?://[^\s@/]+/?$", max_length=512)]
"""Without credentials: each user who may read the model or its pods could read them, too."""

MirrorUrl = Annotated[str, Field(pattern=r"^https?://[^\s@]+$", max_length=512)]

NoProxyHost = Annotated[str, Field(pattern=r"^[^\s,]+$", min_length=1, max_length=253)]


class ProxySpec(ApiModel):
    """The proxy of Jobs and of pods that pull an engine."""

    http: ProxyUrl | None = Field(
        default=None, description="Proxy for http:// addresses, as http://HOST:PORT."
    )
    https: ProxyUrl | None = Field(
        default=None, description="Proxy for https:// addresses, as http://HOST:PORT."
    )
    no_proxy: Annotated[list[NoProxyHost], Field(max_length=64)] = Field(
        default=[],
        description="Hosts, domains (.example.org) and networks (10.0.0.0/8) that are reached "
        "without it.",
    )


class CaBundle(ApiModel):
    """A ConfigMap in the model's namespace with certificates of authorities."""

    config_map_name: ObjectName = Field(
        description="Name of the ConfigMap. Pods wait until it exists."
    )
    key: Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$", min_length=1, max_length=253)] = Field(
        default="ca.crt", description="Key of the PEM file in the ConfigMap's data."
    )


class NetworkSpec(ApiModel):
    """How pods of a model reach other servers: proxy, authorities, mirrors."""

    proxy: ProxySpec = Field(
        default=ProxySpec(),
        description="Proxy of inspections, builds, sweeps and pulls. Fields that are absent: the "
        "operator's.",
    )
    ca_bundle: CaBundle | None = Field(
        default=None,
        description="Authorities that Jobs, servers and gateways trust, in place of the public "
        "ones: a bundle holds those too where both are needed. Absent: the operator's.",
    )

    hub_endpoint: MirrorUrl | None = Field(
        default=None,
        description="Base URL of a mirror of the Hugging Face Hub, for sources that name no "
        "endpoint. Absent: the operator's, then https://huggingface.co.",
    )

    ip_family_policy: Literal["SingleStack", "PreferDualStack"] | None = Field(
        default=None,
        description="Of the model's Service: addresses of one family, or of both where the cluster "
        "has both. Absent: the operator's, then what the Service has: at first, the cluster's "
        "default.",
    )

    @property
    def of_pods(self) -> "NetworkSpec":
        """What of it changes anything in serving pods: they read no Hub, and select no Service."""
        return self.model_copy(update={"hub_endpoint": None, "ip_family_policy": None})

    @property
    def of_jobs(self) -> "NetworkSpec":
        """What of it changes anything in Jobs: they select no Service."""
        return self.model_copy(update={"ip_family_policy": None})

    def over(self, other: "NetworkSpec") -> "NetworkSpec":
        """Return these settings, and another's where these say nothing."""
        return NetworkSpec(
            proxy=ProxySpec(
                http=self.proxy.http or other.proxy.http,
                https=self.proxy.https or other.proxy.https,
                no_proxy=self.proxy.no_proxy or other.proxy.no_proxy,
            ),
            ca_bundle=self.ca_bundle or other.ca_bundle,
            hub_endpoint=self.hub_endpoint or other.hub_endpoint,
            ip_family_policy=self.ip_family_policy or other.ip_family_policy,
        )
