"""The proxy of the environment is taken once, when the client connects."""

from pathlib import Path

import pytest
import yaml

from mm_operator.cluster.client import connect
from support.cases import cases

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


@cases(
    "environment in_kubeconfig expected",
    {
        "none": ({}, "", None),
        "of-the-environment": ({"HTTPS_PROXY": "http://p:1"}, "", "http://p:1"),
        "of-another-scheme": ({"HTTP_PROXY": "http://p:1"}, "", None),
        "excepted": ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "api.example"}, "", None),
        "of-the-kubeconfig": ({"HTTPS_PROXY": "http://p:1"}, "http://k:2", "http://k:2"),
    },
)
async def test_which_proxy(
    environment: dict[str, str],
    in_kubeconfig: str,
    expected: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    document = yaml.safe_load(yaml.safe_dump(KUBECONFIG))
    if in_kubeconfig:
        document["clusters"][0]["cluster"]["proxy-url"] = in_kubeconfig
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))

    api = await connect(str(path), None)
    try:
        assert api.configuration.proxy == expected
        assert api.configuration.client_session_kwargs == {"trust_env": False}
    finally:
        await api.close()  # type: ignore[no-untyped-call]  # the library's
