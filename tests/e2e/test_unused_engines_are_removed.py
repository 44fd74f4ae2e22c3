"""An engine that no model wants any more goes from the store in its time."""

import json

import pytest

from support.eventually import eventually
from support.installed import RESOURCES, Installed, model_space
from support.tiny_llava import CHECKPOINT

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(600)]


def test_the_former_engine_goes_and_the_present_one_stays(installed: Installed) -> None:
    with model_space(installed, "engines") as space:
        space.upload(CHECKPOINT, "tiny")
        space.apply(space.model("first", "tiny"))
        space.wait_ready("first")
        former = space.read("first")["status"]["build"]["fingerprint"]
        changed = {"store": {"size": "1Gi", "gcAfter": "10s"}, "resources": RESOURCES}
        space.apply(space.model("first", "tiny", engine={"maxBatchSize": 3}, build=changed))
        eventually(lambda: space.read("first")["status"]["plan"]["fingerprint"] != former)
        space.wait_ready("first")

        def removed() -> list[str]:
            pods = space.get("pods", "-l", "app.kubernetes.io/component=sweep").get("items", [])
            ends = [
                pod["status"].get("containerStatuses", [{}])[0].get("state", {}) for pod in pods
            ]
            texts = [end["terminated"]["message"] for end in ends if "terminated" in end]
            return [gone for text in texts for gone in json.loads(text)["removed"]]

        assert eventually(removed, seconds=300) == [former]
        assert space.condition("first", "Ready").holds
