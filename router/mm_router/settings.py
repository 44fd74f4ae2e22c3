"""What a router process can be configured with: flags."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mm_api.contract import ROUTER_METRICS_PORT, ROUTER_PORT
from mm_edge.drain import LAME_DUCK_SECONDS

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the router process is configured with."""

    namespaces: tuple[str, ...] = ()
    """Namespaces of models; empty means all of them (and needs a ClusterRole)."""

    auth_file: Path | None = None
    """Tokens of clients, one a line, with a name or without. None: every client is let in, and the
    gateway of each model decides."""

    key_limits_file: Path | None = None
    """Limits by the names of tokens, for all routers together; followed while the router runs."""

    routers: int = 1
    """How many there are: each admits its share of every limit."""

    address: str = "0.0.0.0"  # noqa: S104  # clients come from outside the pod
    """Where it listens, on both ports."""

    port: int = ROUTER_PORT
    """For clients; 0 takes a free one and logs it."""

    metrics_port: int = ROUTER_METRICS_PORT
    """Port of /livez, /readyz and /metrics; 0 takes a free one and logs it."""

    max_body_bytes: int = 128 * _MIB
    """Size of one request. Each model's gateway has its own limit, which is lower or counts as
    well."""

    body_memory_bytes: int = 512 * _MIB
    """For the bodies of all requests that no replica answers yet."""

    max_connections: int = 4096
    """Connections of clients at one time; each takes some 20 KiB, and as much again to its
    replica."""

    hold_requests: int = 1024
    """Requests that wait for replicas, of all models; a quarter of the connections, and each holds
    one. No model gets more of them than are left free."""

    hold_bytes: int = 256 * _MIB
    """For their bodies: half of the memory for bodies, so that requests of other models pass."""

    hold_seconds: float = 300.0
    """How long one waits, as long as Knative's activator. 0: none is held, and answered 503."""

    request_timeout_seconds: float = 3600.0
    """For a request and its answer. The limit of its model ends it earlier."""

    lame_duck_seconds: float = LAME_DUCK_SECONDS
    """How long requests are still taken after SIGTERM."""

    drain_seconds: float = 600.0
    """How long the last answers may take after that."""

    kubeconfig: str | None = None
    """Path; None means the pod's ServiceAccount, or outside a pod the usual places."""

    context: str | None = None
    """Context of the kubeconfig; None means its current one."""

    log_level: str = "info"
    """debug, info, warning or error."""


def parse_settings(arguments: Sequence[str]) -> Settings:
    """Read the command line; exits with usage where it is wrong."""
    default = Settings()
    parser = argparse.ArgumentParser(
        prog="mm-router", description="One address for all models: picks model and replica."
    )
    for name, kind, text in (
        ("namespaces", _names, "of models, joined by commas; empty: all"),
        ("auth_file", Path, "tokens of clients, one a line"),
        ("key_limits_file", Path, "JSON: limits by names of tokens"),
        ("routers", _positive, "how many share the limits"),
        ("address", str, None),
        ("port", int, None),
        ("metrics_port", int, None),
        ("max_body_bytes", _positive, None),
        ("body_memory_bytes", _positive, None),
        ("max_connections", _positive, None),
        ("hold_requests", _positive, "that wait for replicas"),
        ("hold_bytes", _positive, "of their bodies"),
        ("kubeconfig", str, None),
        ("context", str, None),
    ):
        flag, usual = f"--{name.replace('_', '-')}", getattr(default, name)
        parser.add_argument(flag, type=kind, default=usual, help=text)
    for flag, name in (
        ("--request-timeout", "request_timeout_seconds"),
        ("--hold-timeout", "hold_seconds"),
        ("--lame-duck", "lame_duck_seconds"),
        ("--drain-timeout", "drain_seconds"),
    ):
        usual = getattr(default, name)
        parser.add_argument(flag, type=_seconds, dest=name, default=usual, help="seconds")
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default=default.log_level
    )
    settings = Settings(**vars(parser.parse_args(arguments)))
    if settings.key_limits_file is not None and settings.auth_file is None:
        parser.error("--key-limits-file needs --auth-file: names of keys are found there")
    if settings.max_body_bytes > settings.body_memory_bytes * 7 // 8:
        parser.error(
            f"--max-body-bytes {settings.max_body_bytes} never fits: an eighth of "
            f"--body-memory-bytes {settings.body_memory_bytes} is kept for small bodies"
        )
    return settings


def _names(value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))


def _positive(value: str) -> int:
    number = int(value)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return number


def _seconds(value: str) -> float:
    number = float(value)
    if not 0 <= number <= 86_400:  # noqa: PLR2004  # a day
        raise argparse.ArgumentTypeError(f"{value} is not between 0 and 86400 seconds")
    return number
