"""Build what a release is, on this machine; push it and sign it.

python tools/release.py --registry HOST/PATH                        into dist/VERSION
python tools/release.py --registry HOST/PATH --push --sign KEYFILE  and into the registry, signed

`make release` and the workflow run it. docs/design/releasing.md has the steps.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import helm_python
import yaml

from mm_devcluster.binaries import ensure_binaries
from mm_devcluster.errors import DevClusterError
from mm_devcluster.images import base
from mm_devcluster.images.catalogue import OPERATOR, RUNTIME, compose
from mm_devcluster.images.environment import environment_layers
from mm_devcluster.images.oci import write_layout
from mmctl_wheel import build_plugin, build_wheel
from release_documents import Source, Subject, checksums, notes, provenance, sbom

ROOT: Final = Path(__file__).resolve().parent.parent
CHART: Final = "multimodal-operator"
RECIPES: Final = {"operator": OPERATOR, "runtime": RUNTIME}
DOCKERFILES: Final = {
    "operator": ("operator/Dockerfile", "operator.txt"),
    "runtime": ("runtime/Dockerfile", "runtime-cpu.txt"),
    "runtime-cuda": ("runtime/Dockerfile.cuda", "runtime-cuda.txt"),
}
"""Image -> its Dockerfile, and the file of requirements/ that its environment is installed from."""
KEYLESS: Final = "keyless"
UNLOGGED: Final = ("--use-signing-config=false", "--tlog-upload=false")
STEP_SECONDS: Final = 3600.0


class ReleaseError(Exception):
    """The release cannot be made; the message says what to do."""


@dataclass(frozen=True)
class Release:
    """What is made, and where it goes."""

    source: Source
    registry: str
    """Host and path, without a scheme."""
    out: Path
    builder: str

    def image(self, name: str) -> str:
        return f"{self.registry}/{name}"

    @property
    def charts(self) -> str:
        return f"oci://{self.registry}/charts"


def main(arguments: Sequence[str] | None = None) -> int:
    """Make it; print what lies where."""
    options = _options(arguments)
    try:
        release = Release(
            source_of(options.repository),
            options.registry.removeprefix("oci://").rstrip("/"),
            options.out / version(),
            options.builder or _builder(),
        )
        _refuse(release, options)
        release.out.mkdir(parents=True)
        digests = {name: build_image(release, name) for name in options.images}
        package_chart(release, digests)
        wheel = build_wheel(release.out)
        url = f"{release.source.repository}/releases/download/v{version()}/kubectl-mm.tar.gz"
        build_plugin(release.out, wheel, version(), url)
        write_documents(release, digests)
        if options.push:
            push(release, digests)
        if options.sign:
            sign(release, digests, options.sign)
    except (ReleaseError, DevClusterError, helm_python.HelmError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(f"{release.out}: {', '.join(sorted(one.name for one in release.out.iterdir()))}")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    registry = os.environ.get("REGISTRY")
    add("--registry", default=registry, required=not registry, help="HOST/PATH; default: REGISTRY")
    add("--images", nargs="+", choices=sorted(DOCKERFILES), default=["operator", "runtime"])
    add("--builder", choices=["docker", "layers"], help="default: docker where its daemon answers")
    add("--repository", default=os.environ.get("REPOSITORY", ""), help="URL of the source code")
    add("--out", type=Path, default=ROOT / "dist")
    add("--push", action="store_true", help="images and chart to the registry")
    add("--sign", metavar="KEY", help=f"file of cosign's key, or `{KEYLESS}`; pushed before")
    add("--tag", help="fail where the version is not that of this tag, v0.1.0 for example")
    add("--allow-changed", action="store_true", help="push although files differ from the commit")
    return parser.parse_args(arguments)


def version() -> str:
    """Return the version, which four files have. ReleaseError: they differ."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    chart = yaml.safe_load((ROOT / "charts" / CHART / "Chart.yaml").read_text(encoding="utf-8"))
    api = (ROOT / "crds" / "mm_api" / "v1alpha1" / "definition.py").read_text(encoding="utf-8")
    found = {
        "pyproject.toml": project["version"],
        "Chart.yaml version": chart["version"],
        "Chart.yaml appVersion": chart["appVersion"],
        "crds/mm_api/v1alpha1/definition.py": re.findall(r'\nRELEASE.* = "(.+)"', api)[0],
    }
    if len(set(found.values())) > 1:
        raise ReleaseError(f"the version differs: {found}")
    return str(project["version"])


def source_of(repository: str) -> Source:
    """Return the commit that is checked out."""
    commit, date = _output("git", "log", "-1", "--format=%H %cI").split()
    changed = bool(_output("git", "status", "--porcelain"))
    return Source(version(), commit, date, repository, changed)


def _refuse(release: Release, options: argparse.Namespace) -> None:
    if options.tag and options.tag != f"v{release.source.version}":
        raise ReleaseError(f"tag {options.tag} is not v{release.source.version}: raise the version")
    if options.push and release.source.changed and not options.allow_changed:
        raise ReleaseError("files differ from the commit: commit them, or give --allow-changed")
    if release.builder == "layers" and (lacking := set(options.images) - set(RECIPES)):
        raise ReleaseError(f"{', '.join(lacking)} needs docker: give --builder docker")
    if release.out.exists():
        raise ReleaseError(f"{release.out} exists: move it away")


def _builder() -> str:
    there = (
        shutil.which("docker")
        and not subprocess.run(
            ["docker", "info"], capture_output=True, timeout=60, check=False
        ).returncode
    )
    return "docker" if there else "layers"


def build_image(release: Release, name: str) -> str:
    """Write an image as an OCI layout; return the digest of its manifest, `sha256:...`."""
    layout = release.out / "images" / name
    labels = {
        "org.opencontainers.image.version": release.source.version,
        "org.opencontainers.image.revision": release.source.commit,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    if release.source.repository:
        labels["org.opencontainers.image.source"] = release.source.repository
    print(f"image {name}, by {release.builder}", flush=True)
    if release.builder == "layers":
        recipe = RECIPES[name]
        parts = (base.base_layer(print), *environment_layers(recipe.environment, print))
        reference = f"{release.image(name)}:{release.source.version}"
        write_layout(compose(recipe, (*parts, recipe.top()), reference, labels), layout)
    else:
        _build_with_docker(release, name, layout, labels)
    index = json.loads((layout / "index.json").read_text(encoding="utf-8"))
    return str(index["manifests"][0]["digest"])


def _build_with_docker(release: Release, name: str, layout: Path, labels: dict[str, str]) -> None:
    words = [word for label in labels.items() for word in ("--label", "=".join(label))]
    with tempfile.TemporaryDirectory(dir=release.out) as scratch:
        archive = Path(scratch) / "image.tar"
        _run(
            "docker", "buildx", "build", "--provenance=false", "--platform=linux/amd64", *words,
            "--file", DOCKERFILES[name][0], "--output", f"type=oci,dest={archive}", ".",
        )  # fmt: skip
        layout.mkdir(parents=True)
        with tarfile.open(archive) as tar:
            tar.extractall(layout, filter="data")


def references(release: Release, digests: dict[str, str]) -> dict[str, str]:
    """Return image -> its name with tag and digest."""
    number = release.source.version
    return {name: f"{release.image(name)}:{number}@{one}" for name, one in digests.items()}


def package_chart(release: Release, digests: dict[str, str]) -> None:
    """Pack the chart, whose default images are those of the release, by digest."""
    named = references(release, digests)
    with tempfile.TemporaryDirectory() as scratch:
        chart = shutil.copytree(ROOT / "charts" / CHART, Path(scratch) / CHART)
        for file in ("values.yaml", "README.md"):
            text = (chart / file).read_text(encoding="utf-8")
            for name in ("operator", "runtime"):
                usual = f"localhost/multimodal/{name}:{release.source.version}"
                other = f"{release.image(name)}:{release.source.version}"
                text = text.replace(usual, named.get(name, other))
            (chart / file).write_text(text, encoding="utf-8")
        about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
        listed = [{"name": name, "image": reference} for name, reference in named.items()]
        about["annotations"]["artifacthub.io/images"] = yaml.safe_dump(listed, sort_keys=False)
        if release.source.repository:
            about["home"] = release.source.repository
            about["sources"] = [release.source.repository]
        (chart / "Chart.yaml").write_text(yaml.safe_dump(about, sort_keys=False), encoding="utf-8")
        helm_python.chart.package(chart, destination=release.out)


def write_documents(release: Release, digests: dict[str, str]) -> None:
    """Write SBOMs, notes, provenance and checksums beside the chart."""
    source, out = release.source, release.out
    images = [Subject(release.image(name), one.partition(":")[2]) for name, one in digests.items()]
    used = [ROOT / "requirements" / DOCKERFILES[name][1] for name in digests]
    for name, image, requirements in zip(digests, images, used, strict=True):
        document = sbom(source, image, requirements, base.PACKAGES)
        _write_json(out / f"{name}.cdx.json", document)
    named = references(release, digests)
    (out / "images.txt").write_text("".join(f"{one}\n" for one in named.values()), encoding="utf-8")
    text = notes(
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        source,
        named,
        f"{release.charts}/{CHART}",
    )
    (out / "NOTES.md").write_text(text, encoding="utf-8")
    made = sorted(path for path in out.iterdir() if path.is_file())
    subjects = [*images, *(Subject(path.name, _sha256(path)) for path in made)]
    materials = [Subject(f"requirements/{path.name}", _sha256(path)) for path in used]
    who = os.environ.get("BUILDER_ID", "urn:multimodal-operator:local")
    statement = provenance(source, subjects, materials, who, {"builder": release.builder})
    _write_json(out / "provenance.intoto.json", statement)
    (out / "SHA256SUMS").write_text(
        checksums(path for path in out.iterdir() if path.is_file()), encoding="utf-8"
    )


def push(release: Release, digests: dict[str, str]) -> None:
    """Push images and chart."""
    for name, digest in digests.items():
        target = f"{release.image(name)}:{release.source.version}"
        print(f"push {target}@{digest}", flush=True)
        _run(_program("crane"), "push", str(release.out / "images" / name), target)
    helm_python.registry.push(
        release.out / f"{CHART}-{release.source.version}.tgz",
        release.charts,
    )


def sign(release: Release, digests: dict[str, str], key: str) -> None:
    """Sign images, chart and checksums, and attach SBOMs and provenance to the images.

    A key of a file is for registries without Sigstore's services: nothing is logged in public.
    """
    with tempfile.TemporaryDirectory() as scratch:
        predicate = Path(scratch) / "provenance.json"
        statement = json.loads((release.out / "provenance.intoto.json").read_text(encoding="utf-8"))
        _write_json(predicate, statement["predicate"])
        how = ["--yes"] + ([] if key == KEYLESS else ["--key", key, *UNLOGGED])
        cosign = _program("cosign")
        chart = f"{release.registry}/charts/{CHART}"
        with helm_python.RegistryClient() as client:
            found = client.resolve(f"oci://{chart}:{release.source.version}")["digest"]
        _run(cosign, "sign", *how, f"{chart}@{found}")
        for name, digest in digests.items():
            image = f"{release.image(name)}@{digest}"
            _run(cosign, "sign", *how, image)
            for kind, file in (
                ("cyclonedx", release.out / f"{name}.cdx.json"),
                ("slsaprovenance1", predicate),
            ):
                what = ["--type", kind, "--predicate", str(file)]
                _run(cosign, "attest", *how, *what, image)
        sums = release.out / "SHA256SUMS"
        _run(cosign, "sign-blob", *how, "--bundle", f"{sums}.sigstore.json", str(sums))


def _program(name: str) -> str:
    # The pinned one is compiled at its first use.
    return shutil.which(name) or str(ensure_binaries([name])[name])


def _write_json(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, timeout=STEP_SECONDS, check=False)
    if done.returncode:
        raise ReleaseError(f"{Path(command[0]).name} {command[1]} failed: its message is above")


if __name__ == "__main__":
    sys.exit(main())
