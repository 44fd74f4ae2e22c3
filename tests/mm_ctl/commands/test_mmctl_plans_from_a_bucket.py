"""`mmctl plan --checkpoint s3://BUCKET/PREFIX` names the keys that it takes."""

import uuid
from pathlib import Path

import pytest

from mm_ctl.commands.checkpoint_folder import facts_of_checkpoint
from mm_ctl.documents import UsageError
from mm_runtime.inspect.checkpoint import InspectOptions
from support.hollow_checkpoint import write_checkpoint
from support.s3_server import S3Server


@pytest.mark.s3
def test_a_wrong_key_is_named(s3: S3Server, tmp_path: Path) -> None:
    bucket = f"planned-{uuid.uuid4().hex}"
    s3.upload(write_checkpoint(tmp_path / "checkpoint"), bucket, "x")
    keys = {**s3.environment, "AWS_SECRET_ACCESS_KEY": "wrong"}

    with pytest.raises(UsageError, match=r"refuses the credentials .*Here the keys are AWS_ACCESS"):
        facts_of_checkpoint(f"s3://{bucket}/x", InspectOptions(), environment=keys)
