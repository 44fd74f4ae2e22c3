"""http(s) URLs in Triton requests: fetched under the gateway's rules, by both models."""

import asyncio
import queue
import threading

import pytest

from mm_runtime.images.fetch import FetchPolicy
from mm_runtime.serving.errors import QueueFullError, RequestError
from mm_runtime.serving.preprocess.remote_images import (
    MAX_REQUESTS,
    Fetched,
    RemoteImages,
    is_remote,
)
from support.ensemble import Ensemble, EnsembleError
from support.eventually import eventually_async
from support.picture_host import PictureHost, serve_pictures
from support.served import Served
from support.tiny_llava import PICTURES

pytestmark = pytest.mark.triton

QUESTION = "What is in the image?"
SECONDS = 60

STRANGERS = FetchPolicy(
    allowed_hosts=(), allow_private_networks=False, timeout_seconds=SECONDS, max_bytes=1 << 20
)
FRIENDS = FetchPolicy(
    allowed_hosts=(), allow_private_networks=True, timeout_seconds=SECONDS, max_bytes=1 << 20
)


def test_a_picture_is_fetched(served: Served, model: str, host: PictureHost) -> None:
    """The image behind the URL is what the model sees."""
    with Ensemble(served.grpc_url, model) as client:
        found = client.ask(QUESTION, image_url_input=host.url("red-square.png"))
    assert "a red square" == found.text  # noqa: SIM300


def test_fetched_and_sent_pictures_keep_their_order(
    served: Served, model: str, host: PictureHost
) -> None:
    """The second URL is the second image."""
    urls = [host.url("red-square.png"), host.url("big-green-triangle.png")]
    with Ensemble(served.grpc_url, model) as client:
        found = client.ask("What is in the second image?", image_url_input=urls)
    assert "a green triangle" == found.text  # noqa: SIM300


def test_a_host_that_hangs_holds_up_nobody_else(served: Served, host: PictureHost) -> None:
    """Other requests are answered while an image does not come, and its own request is refused.

    The time for an image is short here: a machine that was busy elsewhere may need another try.
    """
    assert any(_is_passed_by(served, host) for _ in range(5))


def _is_passed_by(served: Served, host: PictureHost) -> bool:
    """Say whether a question is answered between a request for an image and its refusal."""
    refused = threading.Event()

    def wait_for_the_picture() -> None:
        with (
            Ensemble(served.grpc_url) as client,
            pytest.raises(EnsembleError, match="not fetched within 3 seconds"),
        ):
            client.ask(QUESTION, image_url_input=host.url("hang"))
        refused.set()

    asked = host.asked.count("hang")
    waiting = threading.Thread(target=wait_for_the_picture)
    with Ensemble(served.grpc_url) as client:
        waiting.start()
        asyncio.run(eventually_async(lambda: host.asked.count("hang") > asked))
        assert "i answer questions about shapes" == client.ask("Hello!").text  # noqa: SIM300
        passed = not refused.is_set()
    assert refused.wait(SECONDS)
    waiting.join(SECONDS)
    return passed


def _fetch(pictures: RemoteImages, *urls: str) -> Fetched | Exception:
    found: queue.Queue[Fetched | Exception] = queue.Queue()
    pictures.fetch(urls, found.put)
    return found.get(timeout=SECONDS)


def test_private_hosts_are_refused(host: PictureHost) -> None:
    """A server of strangers' requests does not reach its own network."""
    pictures = RemoteImages(STRANGERS)
    found = _fetch(pictures, host.url("red-square.png").replace(str(host.port), "80"))
    pictures.end()
    assert isinstance(found, RequestError)
    assert "no address, or one that is not public" in str(found)


def test_one_url_is_fetched_once(host: PictureHost) -> None:
    """A request that names an image twice gets it once; the bytes are the file's."""
    pictures = RemoteImages(FRIENDS)
    url = host.url("red-square.png")
    found = _fetch(pictures, url, url)
    pictures.end()
    assert {url: (PICTURES / "red-square.png").read_bytes()} == found


def test_waiting_requests_have_a_bound(host: PictureHost) -> None:
    """Hosts that are slow cannot fill the memory: a request too many is sent away for a while."""
    found: queue.Queue[Fetched | Exception] = queue.Queue()
    with serve_pictures() as slow:
        pictures = RemoteImages(FRIENDS)
        for _ in range(MAX_REQUESTS):
            pictures.fetch([slow.url("late")], found.put)
        with pytest.raises(QueueFullError, match="wait for images from other hosts already"):
            pictures.fetch([host.url("red-square.png")], found.put)
        slow.release()
        ended = [found.get(timeout=SECONDS) for _ in range(MAX_REQUESTS)]
    assert {dict} == {type(one) for one in ended}
    # A place is free once the answer has been dealt with, a moment after this test has it.
    asyncio.run(eventually_async(lambda: _is_fetched(pictures, host.url("red-square.png"))))
    pictures.end()


def _is_fetched(pictures: RemoteImages, url: str) -> bool:
    try:
        return isinstance(_fetch(pictures, url), dict)
    except QueueFullError:
        return False


@pytest.mark.parametrize(
    ("expected", "url"),
    [
        pytest.param(True, "https://a/b.png", id="https"),
        pytest.param(True, "HTTP://a/b.png", id="upper-case"),
        pytest.param(False, "data:image/png;base64,", id="data"),
        pytest.param(False, "file:///etc/passwd", id="file"),
    ],
)
def test_only_http_is_fetched(expected: bool, url: str) -> None:  # noqa: FBT001
    """Other schemes never reach the network."""
    assert expected == is_remote(url)
