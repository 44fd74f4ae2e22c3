"""`spec.autoscaling.prometheus`: where metrics are read, and how the server is trusted."""

from typing import Annotated

from pydantic import Field

from mm_api.base import ApiModel
from mm_api.v1alpha1.names import ObjectName, SecretKeyRef, SecretRef

Address = Annotated[
    str,
    Field(
        pattern=r"^https?://([-._a-zA-Z0-9]+|\[[:.0-9a-fA-F]+\])(:[0-9]{1,5})?(/[^\s?#@\\]*)?$",
        max_length=512,
    ),
]
"""Scheme, host, port and a path before `/api/v1/query`. No `?` or `#`, behind which that path would
be none, and no user: what is sent where follows from the other fields alone."""

LabelName = Annotated[str, Field(min_length=1, max_length=128)]
MatchValue = Annotated[str, Field(max_length=253)]


class CertificateRef(ApiModel):
    """One key of a Secret that holds certificates."""

    name: ObjectName = Field(description="Name of the Secret, for example hub-token.")
    key: Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$", min_length=1, max_length=253)] = Field(
        default="ca.crt", description="Key in the Secret's data."
    )


class TlsSpec(ApiModel):
    """How the server's certificate is checked, and which one of ours it may request."""

    ca_secret_ref: CertificateRef | None = Field(
        default=None, description="Authorities to trust, PEM. Absent: those of the image."
    )
    client_secret_ref: SecretRef | None = Field(
        default=None, description="Secret of type kubernetes.io/tls with our own certificate."
    )
    server_name: Annotated[str, Field(min_length=1, max_length=253)] | None = Field(
        default=None, description="Name in the server's certificate. Absent: the address's host."
    )
    insecure_skip_verify: bool = Field(
        default=False, description="Take any certificate; for trials only."
    )


class PrometheusSpec(ApiModel):
    """Where metrics are read."""

    addresses: Annotated[list[Address], Field(min_length=1, max_length=4)] = Field(
        description="Base addresses of the Prometheus API, for example "
        "http://prometheus.monitoring.svc:9090. Several are replicas of each other: the next one "
        "is queried when one fails. Without user, query and fragment; loopback, link-local and "
        "metadata addresses are refused unless the chart's prometheus.allowedHosts lists them."
    )
    match_labels: Annotated[dict[LabelName, MatchValue], Field(max_length=8)] = Field(
        default={},
        description="Labels that every series must have, for example cluster: prod where one "
        "Prometheus holds several clusters.",
    )
    tls: TlsSpec = Field(default=TlsSpec(), description="How https is trusted.")
    token_secret_ref: SecretKeyRef | None = Field(
        default=None, description="Bearer token for Prometheus."
    )
    basic_auth_secret_ref: SecretRef | None = Field(
        default=None,
        description="Secret of type kubernetes.io/basic-auth with the user's name and password, in "
        "place of a token.",
    )
