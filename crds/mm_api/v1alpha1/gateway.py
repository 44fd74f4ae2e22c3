"""`spec.gateway`: the OpenAI endpoint in front of the engine and its limits."""

from typing import Annotated

from pydantic import Field

from mm_api.base import ApiModel
from mm_api.v1alpha1.duration import Duration
from mm_api.v1alpha1.names import SecretKeyRef
from mm_api.v1alpha1.pod import Resources
from mm_api.v1alpha1.quantity import Quantity

_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
HostName = Annotated[
    str, Field(pattern=rf"^(\*\.)?{_LABEL}(\.{_LABEL})*$", min_length=1, max_length=253)
]
"""A host; `*.example.org` means every host below example.org."""


class KeyLimit(ApiModel):
    """What the clients of one key may use of each replica."""

    name: Annotated[
        str,
        Field(
            pattern=r"^(\*|[a-zA-Z0-9]([-_.a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)$",
            min_length=1,
            max_length=63,
        ),
    ] = Field(
        description="Name of the key in the Secret; `unnamed`: tokens without one; `*`: each key "
        "that has no entry of its own."
    )
    requests_per_minute: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Requests that begin within a minute. Absent: no limit.",
    )
    concurrent_requests: int | None = Field(
        default=None,
        ge=1,
        le=65_536,
        description="Requests at one time, those that wait included. Absent: no limit.",
    )
    tokens_per_minute: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000_000,
        description="Tokens of prompts, image features and answers within a minute; a request "
        "is admitted with its longest answer. Absent: no limit.",
    )
    weight: int = Field(
        default=1,
        ge=1,
        le=100,
        description="Share of a replica while requests of several keys wait, in tokens.",
    )


class GatewaySpec(ApiModel):
    """The gateway."""

    max_image_bytes: Quantity = Field(
        default="20Mi", description="Largest encoded image, fetched or in the request."
    )
    max_image_pixels: int = Field(
        default=50_000_000,
        ge=1,
        le=1_000_000_000,
        description="Largest decoded image in pixels; checked before it is decoded.",
    )
    max_queue_size: int = Field(
        default=64,
        ge=0,
        le=65_536,
        description="Requests that wait in the gateway for a slot; more are answered 429.",
    )
    max_queue_tokens: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000_000,
        description="Tokens (prompts, image features, longest answers) of the requests that wait; "
        "more are answered 429. Absent: only maxQueueSize counts.",
    )
    allowed_hosts: Annotated[list[HostName], Field(max_length=64)] = Field(
        default=[],
        description="Hosts images may be fetched from, for example images.example.org. Empty: "
        "every host with a public address.",
    )
    allow_private_networks: bool = Field(
        default=False,
        description="Fetch images from private, loopback and link-local addresses too. It lets "
        "clients reach what the pod can reach.",
    )
    auth_secret_ref: SecretKeyRef | None = Field(
        default=None,
        description="Bearer tokens of which clients must send one: one a line, or `NAME: TOKEN`. "
        "Absent: every client that reaches the Service is served.",
    )
    key_limits: Annotated[list[KeyLimit], Field(max_length=64)] = Field(
        default=[],
        description="Limits by the names of tokens; each replica counts by itself.",
    )
    fetch_timeout: Duration = Field(
        default="10s", description="Longest time for fetching one image, redirects included."
    )
    request_timeout: Duration = Field(
        default="5m", description="Longest time for one request, waiting included."
    )
    stream_keep_alive: Duration = Field(
        default="15s",
        description="Silence after which a stream gets a comment, before its first token and "
        "after it: proxies cut silent connections, often at 60s.",
    )
    resources: Resources = Field(
        default=Resources(), description="Compute resources of the gateway container."
    )
