"""Certificates for tests that speak TLS."""

import subprocess
from pathlib import Path


def signed_by_itself(folder: Path, name: str) -> tuple[Path, Path]:
    """Return a new certificate for 127.0.0.1 and its key, as NAME.crt and NAME.key."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    command = [
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
        *("-nodes", "-days", "1", "-subj", "/CN=localhost"),
        *("-addext", "subjectAltName=IP:127.0.0.1"),
        *("-keyout", str(key), "-out", str(certificate)),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return certificate, key
