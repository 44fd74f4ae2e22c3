"""An address becomes a part of a URL in one way: IPv6 in brackets."""

from mm_api.hosts import bracketed, host_port
from support.cases import cases


@cases(
    "host alone with_port",
    {
        "ipv4": ("10.0.0.1", "10.0.0.1", "10.0.0.1:80"),
        "ipv6": ("fd00::1", "[fd00::1]", "[fd00::1]:80"),
        "name": ("a.example", "a.example", "a.example:80"),
    },
)
def test_a_host_is_written_as_urls_have_it(host: str, alone: str, with_port: str) -> None:
    assert (bracketed(host), host_port(host, 80)) == (alone, with_port)
