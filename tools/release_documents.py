"""The documents of a release: SBOM of an image, provenance, notes, checksums. Writes nothing."""

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

UNRELEASED: Final = "Unreleased"
_PIN: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)
_NAMESPACE: Final = uuid.UUID("b0a4c1de-6a0f-5d0e-9f53-5d7f0f0e2b11")
"""The serial number of an SBOM follows from what it says."""


@dataclass(frozen=True)
class Source:
    """What a release is made from."""

    version: str
    commit: str
    date: str
    """The commit's, RFC 3339: every time stamp of a release is this one."""
    repository: str
    """URL of the repository, or "" where it is not known."""
    changed: bool
    """Whether files differ from the commit."""


@dataclass(frozen=True)
class Subject:
    """One thing that a release holds."""

    name: str
    digest: str
    """SHA-256, hexadecimal."""


def pins(requirements: str) -> Iterator[tuple[str, str]]:
    """Yield name and version of each package of a requirements file."""
    yield from _PIN.findall(requirements)


def sbom(
    source: Source, image: Subject, requirements: Path, system: Iterable[str]
) -> dict[str, Any]:
    """Return an image's CycloneDX document: its pinned packages, and Debian's by name.

    Args:
        source: Of the release.
        image: Its reference without tag, and its digest.
        requirements: The file that its environment is installed from.
        system: Names of Debian's packages.
    """
    text = requirements.read_text(encoding="utf-8")
    # Names as the purl specification wants those of PyPI.
    found = sorted(
        {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in pins(text)}
    )
    components: list[dict[str, Any]] = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{version}",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name}@{version}",
        }
        for name, version in found
    ]
    components += [
        {
            "type": "library",
            "bom-ref": f"pkg:deb/debian/{name}",
            "name": name,
            "purl": f"pkg:deb/debian/{name}",
        }
        for name in sorted(system)
    ]
    name = image.name.rpartition("/")[2]
    reference = f"pkg:oci/{name}@sha256%3A{image.digest}?repository_url={image.name}"
    pinned = hashlib.sha256(text.encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, reference + json.dumps(components))}",
        "version": 1,
        "metadata": {
            "timestamp": source.date,
            "component": {
                "type": "container",
                "bom-ref": reference,
                "name": image.name,
                "version": source.version,
                "purl": reference,
                "hashes": [{"alg": "SHA-256", "content": image.digest}],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
            "properties": [
                {"name": f"requirements/{requirements.name}", "value": f"sha256:{pinned}"}
            ],
        },
        "components": components,
        "dependencies": [
            {"ref": reference, "dependsOn": [one["bom-ref"] for one in components]},
        ],
    }


def provenance(
    source: Source,
    subjects: Iterable[Subject],
    materials: Iterable[Subject],
    builder: str,
    parameters: Mapping[str, Any],
) -> dict[str, Any]:
    """Return an in-toto statement with a SLSA provenance (v1): what was made, of what, by whom.

    Args:
        source: Of the release.
        subjects: All that it holds.
        materials: Files with pins.
        builder: Identity of who ran it, a URI.
        parameters: Options of the script.
    """
    where = source.repository or "urn:multimodal-operator:source"
    pinned = [{"uri": one.name, "digest": {"sha256": one.digest}} for one in materials]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": one.name, "digest": {"sha256": one.digest}} for one in subjects],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:multimodal-operator:release:v1",
                "externalParameters": {
                    "version": source.version,
                    "changed": source.changed,
                    **parameters,
                },
                "resolvedDependencies": [
                    {"uri": f"git+{where}", "digest": {"gitCommit": source.commit}},
                    *pinned,
                ],
            },
            "runDetails": {"builder": {"id": builder}, "metadata": {"finishedOn": source.date}},
        },
    }


def notes(changelog: str, source: Source, references: Mapping[str, str], chart: str) -> str:
    """Return the notes: how to install, the images, and the changelog's section of the version.

    While that is empty, what is unreleased is the section.
    """
    sections = dict(
        re.findall(
            r"^## \[([^]]+)\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL
        )
    )
    body = sections.get(source.version, "").strip() or sections.get(UNRELEASED, "").strip()
    rows = "\n".join(f"| {name} | `{reference}` |" for name, reference in references.items())
    return f"""\
# {source.version}

```sh
helm install multimodal-operator {chart} --version {source.version} \\
  --namespace multimodal-system --create-namespace
```

| image | reference |
| --- | --- |
{rows}

How to verify signatures: docs/design/releasing.md at commit {source.commit}.

{body}
"""


def checksums(files: Iterable[Path]) -> str:
    """Return lines as `sha256sum --check` reads them, for files beside each other."""
    found = ((hashlib.sha256(path.read_bytes()).hexdigest(), path.name) for path in sorted(files))
    return "".join(f"{digest}  {name}\n" for digest, name in found)
