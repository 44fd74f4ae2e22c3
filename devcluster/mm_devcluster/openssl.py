"""Issue certificates with the openssl program: 0.6 s for an entire cluster."""

import subprocess
from pathlib import Path

from mm_devcluster.certificates import DAYS, Certificate


def issue(certificates: tuple[Certificate, ...], directory: Path) -> None:
    """Write NAME.crt and NAME.key for each certificate, and the service account key pair.

    Args:
        certificates: Authorities before what they sign.
        directory: Made readable by its owner alone.
    """
    directory.mkdir(parents=True, mode=0o700, exist_ok=True)
    for certificate in certificates:
        _issue(certificate, directory)
    _openssl(directory, "genrsa", "-out", "sa.key", "2048")
    _openssl(directory, "rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")


def _issue(certificate: Certificate, directory: Path) -> None:
    name = certificate.name
    curve = ["-name", "prime256v1", "-genkey", "-noout"]
    _openssl(directory, "ecparam", *curve, "-out", f"{name}.key")
    organization = f"/O={certificate.organization}" if certificate.organization else ""
    request = ["req", "-new", "-key", f"{name}.key"]
    subject = ["-subj", f"{organization}/CN={certificate.common_name}"]
    if certificate.authority == name:
        usage = ["-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"]
        lifetime = ["-x509", "-days", str(DAYS)]
        _openssl(directory, *request, *subject, *lifetime, *usage, "-out", f"{name}.crt")
        return
    _openssl(directory, *request, *subject, "-out", f"{name}.csr")
    extensions = [
        "keyUsage=critical,digitalSignature,keyEncipherment",
        "extendedKeyUsage=serverAuth,clientAuth",
    ]
    if certificate.server_names:
        extensions.append(f"subjectAltName={','.join(certificate.server_names)}")
    (directory / f"{name}.ext").write_text("\n".join(extensions) + "\n")
    authority = certificate.authority
    signer = ["-CA", f"{authority}.crt", "-CAkey", f"{authority}.key", "-CAcreateserial"]
    lifetime = ["-days", str(DAYS), "-extfile", f"{name}.ext"]
    _openssl(
        directory, "x509", "-req", "-in", f"{name}.csr", *signer, *lifetime, "-out", f"{name}.crt"
    )


def _openssl(directory: Path, *arguments: str) -> None:
    subprocess.run(
        ["openssl", *arguments], cwd=directory, check=True, capture_output=True, timeout=60
    )
