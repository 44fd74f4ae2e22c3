"""Messages of kubelets, registries and schedulers are quoted without what differs each time.

A condition that changes with a port is written again with each try. The messages are those of
kubelet 1.28 to 1.34, containerd, CRI-O, kube-scheduler and admission; each is given as it came
twice.
"""

import pytest

from mm_api.quoted_text import steady
from support.cases import cases

PULL = 'failed to pull and unpack image "registry.example.com/llava:1": failed to resolve reference'

MESSAGES = [
    pytest.param(
        "dial tcp: lookup registry.example.com on 10.96.0.10:53: read udp 10.99.0.2:{}->"
        "10.96.0.10:53: i/o timeout",
        ("54635", "33211"),
        "dial tcp: lookup registry.example.com: read udp: i/o timeout",
        id="dns-times-out",
    ),
    pytest.param(
        f'{PULL} "registry.example.com/llava:1": failed to do request: Head '
        '"https://registry.example.com/v2/llava/manifests/1": dial tcp {}:443: connect: '
        "connection refused",
        ("203.0.113.7", "203.0.113.8"),
        f'{PULL} "registry.example.com/llava:1": failed to do request: Head '
        '"https://registry.example.com/v2/llava/manifests/1": dial tcp: connect: connection '
        "refused",
        id="one-of-several-addresses-refuses",
    ),
    pytest.param(
        'Get "https://[fd00::5]:5000/v2/": dial tcp [fd00::{}]:5000: connect: no route to host',
        ("5", "6"),
        'Get "https://[fd00::5]:5000/v2/": dial tcp: connect: no route to host',
        id="ipv6",
    ),
    pytest.param(
        "read tcp 10.0.0.4:{}->203.0.113.7:443: read: connection reset by peer",
        ("40112", "51212"),
        "read tcp: read: connection reset by peer",
        id="reset",
    ),
    pytest.param(
        'failed to authorize: failed to fetch oauth token: Post "https://auth.example.com/token'
        '?scope=repository%3Allava%3Apull&nonce={}": 401 Unauthorized',
        ("a81f", "99bc"),
        'failed to authorize: failed to fetch oauth token: Post "https://auth.example.com/token": '
        "401 Unauthorized",
        id="token",
    ),
    pytest.param(
        "httpReadSeeker: failed open: unexpected status code https://blobs.example.com/llava?"
        "X-Amz-Date=20261128T1000{}Z&X-Amz-Signature=aa: 403 Forbidden",
        ("00", "59"),
        "httpReadSeeker: failed open: unexpected status code https://blobs.example.com/llava: "
        "403 Forbidden",
        id="presigned-address",
    ),
    pytest.param(
        "back-off {} restarting failed container=server pod=llava-7d9f8c6b5-x2x9k_demo"
        "(0b5c6a6e-11d7-4f0e-9a55-2d8c1f2b9a11)",
        ("10s", "2m40s"),
        "back-off restarting failed container=server",
        id="back-off-grows",
    ),
    pytest.param(
        'Back-off pulling image "registry.example.com/llava:1"{}',
        ("", ""),
        'Back-off pulling image "registry.example.com/llava:1"',
        id="back-off-of-a-pull",
    ),
    pytest.param(
        "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: "
        "current time 2026-11-28T10:00:{}Z is after 2026-01-01T00:00:00Z",
        ("00", "41"),
        "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: "
        "current time is after 2026-01-01T00:00:00Z",
        id="expired-certificate",
    ),
    pytest.param(
        "toomanyrequests: You have reached your pull rate limit. Request ID: {}. retry after {}",
        ("4a1f3b7c-2f75-4d30-a8e9-0d2e7b51c3a1 37s", "00aa11bb-2f75-4d30-a8e9-0d2e7b51c3a1 1m2s"),
        "toomanyrequests: You have reached your pull rate limit. Request ID: .... retry after",
        id="too-many-requests",
    ),
    pytest.param(
        "failed to extract layer sha256:5f70bf18a086: mount callback failed on "
        "/var/lib/containerd/tmpmounts/containerd-mount{}: no space left on device",
        ("1234567890", "2233445566"),
        "failed to extract layer sha256:5f70bf18a086: mount callback failed on "
        "/var/lib/containerd/tmpmounts/containerd-mount...: no space left on device",
        id="disk-of-the-node-is-full",
    ),
    pytest.param(
        'failed to reserve container name "server_llava-7d9f8c6b5-x2x9k_demo_0b5c6a6e-11d7-4f0e-'
        '9a55-2d8c1f2b9a11_{}": name is reserved for "{}"',
        ("3 " + "ab" * 32, "4 " + "cd" * 32),
        'failed to reserve container name "server_llava-7d9f8c6b5-x2x9k_demo_...": name is '
        'reserved for "..."',
        id="container-name-is-reserved",
    ),
    pytest.param(
        'pods "llava-7d9f8c6b5-{}" is forbidden: error looking up service account '
        'demo/absent: serviceaccount "absent" not found',
        ("x2x9k", "aaaaa"),
        "pods is forbidden: error looking up service account demo/absent: serviceaccount "
        '"absent" not found',
        id="account-is-missing",
    ),
    pytest.param(
        'ReplicaSet "llava-{}" has timed out progressing.',
        ("7d9f8c6b5", "6c5b8f9d7"),
        "ReplicaSet has timed out progressing.",
        id="stalled",
    ),
    pytest.param(
        'failed calling webhook "check.example.com": failed to call webhook: Post '
        '"https://check.demo.svc:443/validate?timeout=10s": dial tcp 10.96.{}.9:443: connect: '
        "connection refused",
        ("1", "2"),
        'failed calling webhook "check.example.com": failed to call webhook: Post '
        '"https://check.demo.svc:443/validate": dial tcp: connect: connection refused',
        id="webhook-is-away",
    ),
    pytest.param(
        '0/1 nodes are available: persistentvolumeclaim "nope" not found. {}',
        ("not found", "not found"),
        '0/1 nodes are available: persistentvolumeclaim "nope" not found',
        id="words-said-twice",
    ),
    pytest.param(
        "0/1 nodes are available: 1 Insufficient cpu. {}: 0/1 nodes are available: 1 No preemption "
        "victims found for incoming pod.",
        ("preemption", "preemption"),
        "0/1 nodes are available: 1 Insufficient cpu",
        id="preemption-adds-nothing",
    ),
    pytest.param(
        "E1128 10:00:{} model_lifecycle.cc:654] failed to load 'llm' version 1: Internal: no file",
        ("00.123456 17", "01.654321 29"),
        "failed to load 'llm' version 1: Internal: no file",
        id="line-of-a-server",
    ),
    pytest.param(
        'Address already in use {{created_time:"2026-11-28T10:00:{}+00:00", errno:98}}',
        ("00.904908017", "01.904964772"),
        'Address already in use {created_time:"...", errno:98}',
        id="moment-of-a-line",
    ),
    pytest.param(
        '2026/11/28 10:00:{} [emerg] bind() failed; pod "{}"',
        ("00 4a1f3b7c-2f75-4d30-a8e9-0d2e7b51c3a1", "01 4a1f3b7c-2f75-4d30-a8e9-0d2e7b51c3a2"),
        '[emerg] bind() failed; pod "..."',
        id="time-in-front",
    ),
]


@pytest.mark.parametrize(("message", "parts", "expected"), MESSAGES)
def test_two_tries_say_the_same(message: str, parts: tuple[str, str], expected: str) -> None:
    assert [expected, expected] == [steady(_filled(message, part)) for part in parts]


@cases(
    "text",
    {
        "secret": 'secret "nokeys" not found',
        "own-registry": 'Failed to pull image "10.0.0.5:5000/llava:1": not found',
        "digest": "registry.example.com/llava@sha256:" + "ab" * 32,
        "q": "exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3",
        "taint": "0/5 nodes are available: 2 node(s) had untolerated taint(s)",
        "numbers": "shape [1, 24, 336] of layer 10.5.0 is not [1, 24, 224]",
        "lines": "first line\nsecond line",
        "nothing": "",
    },
)
def test_what_a_person_needs_stays(text: str) -> None:
    """Names, images, digests, counts and versions are the message."""
    assert steady(text) == text


def _filled(message: str, part: str) -> str:
    return message.format(*part.split(" ")) if message.count("{}") > 1 else message.format(part)
