"""Names of other objects, and references to keys of Secrets, as the API takes them."""

from typing import Annotated

from pydantic import Field

from mm_api.base import ApiModel

DnsLabel = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", min_length=1, max_length=63)
]
"""Name of an object whose name is one DNS label."""

ObjectName = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", min_length=1, max_length=253)
]
"""Name of any other object: DNS labels joined by dots."""

ImageName = Annotated[str, Field(pattern=r"^[^\s]+$", min_length=1, max_length=512)]
"""A container image, with a tag or digest."""

LabelKey = Annotated[str, Field(min_length=1, max_length=317)]
"""Key of a label: prefix (253) / name (63)."""

LabelValue = Annotated[
    str, Field(pattern=r"^([A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?)?$", max_length=63)
]

RelativePath = Annotated[str, Field(pattern=r"^([^/\\\s][^\\\n]*)?$", max_length=1024)]
"""A path inside a volume: relative, no backslash; a rule refuses `..`."""


class SecretKeyRef(ApiModel):
    """One key of a Secret in the model's namespace."""

    name: ObjectName = Field(description="Name of the Secret, for example hub-token.")
    key: Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$", min_length=1, max_length=253)] = Field(
        default="token", description="Key in the Secret's data."
    )


class SecretRef(ApiModel):
    """A Secret in the model's namespace."""

    name: ObjectName = Field(description="Name of the Secret, for example hub-token.")
