"""`spec.autoscaling.prometheus`: where metrics are read."""

from typing import Annotated

from pydantic import Field

from mm_api.base import ApiModel

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


class PrometheusSpec(ApiModel):
    """Where metrics are read."""

    addresses: Annotated[list[Address], Field(min_length=1, max_length=4)] = Field(
        description="Base addresses of the Prometheus API, for example "
        "http://prometheus.monitoring.svc:9090. Several are replicas of each other: the next one "
        "is queried when one fails. Without user, query and fragment, at hosts that the chart's "
        "prometheus.allowedHosts lists. No credentials are sent."
    )
    match_labels: Annotated[dict[LabelName, MatchValue], Field(max_length=8)] = Field(
        default={},
        description="Labels that every series must have, for example cluster: prod where one "
        "Prometheus holds several clusters.",
    )
