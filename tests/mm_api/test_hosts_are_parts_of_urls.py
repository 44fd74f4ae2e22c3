"""An address becomes a part of a URL in one way: IPv6 in brackets."""

import pytest

from mm_api.hosts import bracketed, host_port


@pytest.mark.parametrize(
    ("host", "alone", "with_port"),
    [
        pytest.param("10.0.0.1", "10.0.0.1", "10.0.0.1:80", id="ipv4"),
        pytest.param("fd00::1", "[fd00::1]", "[fd00::1]:80", id="ipv6"),
        pytest.param("a.example", "a.example", "a.example:80", id="name"),
    ],
)
def test_a_host_is_written_as_urls_have_it(host: str, alone: str, with_port: str) -> None:
    """With a port and without."""
    assert (bracketed(host), host_port(host, 80)) == (alone, with_port)
