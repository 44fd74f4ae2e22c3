"""Write OCI image archives: layers from files, a configuration, one tar for ``ctr images import``.

Layers are reproducible (sorted names, fixed times and owners) and compressed by zstd at level 1:
containerd's cost is writing content, so a compressed layer loads three times as fast as a plain
one (docs/design/devcluster.md). A layer that the store already has may be left out of an archive.
"""

import hashlib
import io
import json
import shutil
import stat
import tarfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

import zstandard

LAYER_ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"

EPOCH = 0  # every time stamp in an image: digests must not depend on when it was built
CHUNK = 1 << 20


@dataclass(frozen=True)
class Entry:
    """One path in a layer: a file of this machine, literal bytes, a link or a directory."""

    path: str
    """Absolute path inside the image."""
    source: Path | None = None
    """File whose bytes are taken. Read while the layer is written."""
    content: bytes | None = None
    """Literal bytes, when there is no source file."""
    link: str | None = None
    """Target of a symbolic link."""
    mode: int = 0o644
    """Permission bits. Of a directory: 0o755 by default."""
    uid: int = 0
    gid: int = 0
    directory: bool = False


@dataclass(frozen=True)
class Layer:
    """One compressed layer: what a manifest says of it, and the file that holds its bytes."""

    digest: str
    """``sha256:...`` of the compressed bytes."""
    diff_id: str
    """``sha256:...`` of the uncompressed tar."""
    size: int
    """Compressed bytes."""
    path: Path | None = None
    """The compressed file; None when its bytes lie in the store and are left out of archives."""


@dataclass(frozen=True)
class ImageConfig:
    """What a container of the image runs, and as whom."""

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = "/"
    user: str = "65532:65532"
    """``uid:gid``; numeric, because the kubelet cannot prove that a name is not root."""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Image:
    """Everything an archive says of one image: the reference, the documents, the layers."""

    reference: str
    manifest: bytes
    config: bytes
    layers: tuple[Layer, ...]

    @property
    def digest(self) -> str:
        """Digest of the manifest, which names the image by content."""
        return digest_of(self.manifest)


def digest_of(content: bytes) -> str:
    """Return ``sha256:<hex>`` of some bytes."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def tree_entries(
    root: Path, target: str = "/", *, uid: int = 0, skip: Collection[str] = ()
) -> Iterator[Entry]:
    """Describe a directory of this machine as entries below ``target``, sorted.

    Symbolic links stay links, directories and files keep their permission bits; sockets, devices
    and pipes are left out.

    Args:
        root: The directory.
        target: Where its content goes in the image.
        uid: Owner of everything.
        skip: Names of files and directories to leave out at any depth (``__pycache__``).
    """
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if any(part in skip for part in relative.parts):
            continue
        where = str(PurePosixPath(target) / relative.as_posix())
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            yield Entry(where, link=str(path.readlink()), uid=uid)
        elif stat.S_ISDIR(status.st_mode):
            yield Entry(where, directory=True, mode=mode, uid=uid)
        elif stat.S_ISREG(status.st_mode):
            yield Entry(where, source=path, mode=mode, uid=uid)


def write_layer(entries: Iterable[Entry], path: Path) -> Layer:
    """Write one zstd layer to ``path``, in the order given, and return what it is.

    Parent directories that no entry names are made by containerd when it unpacks.
    """
    plain = hashlib.sha256()
    packed = hashlib.sha256()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        # Two threads: the smallest machine we run on has two cores, and the bytes written do not
        # depend on the number as long as it is not zero.
        compressor = zstandard.ZstdCompressor(level=1, threads=2)
        sink = cast("IO[bytes]", _Tee(out, packed))
        with (
            compressor.stream_writer(sink, closefd=False) as stream,
            tarfile.open(fileobj=_Tee(stream, plain), mode="w|", bufsize=CHUNK) as tar,
        ):
            for entry in entries:
                _add(tar, entry)
    return Layer(
        f"sha256:{packed.hexdigest()}", f"sha256:{plain.hexdigest()}", path.stat().st_size, path
    )


def build_image(reference: str, config: ImageConfig, layers: Sequence[Layer]) -> Image:
    """Compute the documents of an image.

    Args:
        reference: Full name, ``host/path:tag``: pods must use exactly this text.
        config: What a container runs.
        layers: Lowest first.

    Raises:
        ValueError: The reference has no tag or no host.
    """
    host, slash, rest = reference.partition("/")
    if not slash or (host != "localhost" and "." not in host) or ":" not in rest:
        raise ValueError(
            f"image reference {reference!r} must read host.name/path:tag or localhost/path:tag"
        )
    document = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": config.user,
            "WorkingDir": config.working_dir,
            "Env": [f"{key}={value}" for key, value in sorted(config.environment.items())],
            "Labels": dict(sorted(config.labels.items())),
            **({"Entrypoint": list(config.entrypoint)} if config.entrypoint else {}),
            **({"Cmd": list(config.command)} if config.command else {}),
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
    }
    config_bytes = _json(document)
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _descriptor(CONFIG, config_bytes),
        "layers": [
            {"mediaType": LAYER_ZSTD, "digest": layer.digest, "size": layer.size}
            for layer in layers
        ],
    }
    return Image(reference, _json(manifest), config_bytes, tuple(layers))


def write_archive(image: Image, out: IO[bytes], leave_out: Collection[str] = ()) -> int:
    """Write an image as an OCI archive to a stream (a file, or the stdin of an import).

    Args:
        image: The image.
        out: Where to; need not be seekable.
        leave_out: Digests that the store already holds; layers without a file are left out too.

    Returns:
        How many layers were written.
    """
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [
            {
                **_descriptor(MANIFEST, image.manifest),
                "annotations": {
                    "io.containerd.image.name": image.reference,
                    "org.opencontainers.image.ref.name": image.reference.rpartition(":")[2],
                },
                "platform": {"architecture": "amd64", "os": "linux"},
            }
        ],
    }
    written: set[str] = set(leave_out)
    count = 0
    with tarfile.open(fileobj=out, mode="w|", bufsize=CHUNK) as tar:
        _add(tar, Entry("oci-layout", content=_json({"imageLayoutVersion": "1.0.0"})))
        _add(tar, Entry("index.json", content=_json(index)))
        for content in (image.manifest, image.config):
            _add(tar, Entry(_blob(digest_of(content)), content=content))
        for layer in image.layers:
            if layer.digest not in written and layer.path is not None:
                written.add(layer.digest)
                count += 1
                _add(tar, Entry(_blob(layer.digest), source=layer.path))
    return count


def write_layout(image: Image, folder: Path) -> None:
    """Write an image as an OCI layout; layers are hard links where the disk is the cache's."""
    (folder / "blobs" / "sha256").mkdir(parents=True)
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [_descriptor(MANIFEST, image.manifest)],
    }
    (folder / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    (folder / "index.json").write_bytes(_json(index))
    for content in (image.manifest, image.config):
        (folder / _blob(digest_of(content))).write_bytes(content)
    for layer in image.layers:
        target = folder / _blob(layer.digest)
        if layer.path is None or target.exists():
            continue
        try:
            target.hardlink_to(layer.path)
        except OSError:  # another disk
            shutil.copyfile(layer.path, target)


def _blob(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest_of(content), "size": len(content)}


def _add(tar: tarfile.TarFile, entry: Entry) -> None:
    info = tarfile.TarInfo(entry.path.lstrip("/"))
    info.mtime, info.uid, info.gid, info.mode = EPOCH, entry.uid, entry.gid, entry.mode
    if entry.link is not None:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
        tar.addfile(info)
    elif entry.directory:
        info.type = tarfile.DIRTYPE
        info.mode = 0o755 if entry.mode == Entry.mode else entry.mode
        tar.addfile(info)
    elif entry.source is not None:
        with entry.source.open("rb") as file:
            info.size = entry.source.stat().st_size
            tar.addfile(info, file)
    else:
        content = entry.content or b""
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))


class _Tee(io.RawIOBase):
    """Passes bytes on to a stream and counts them into a digest."""

    def __init__(self, out: Any, digest: "hashlib._Hash") -> None:
        super().__init__()
        self._out = out
        self._digest = digest

    def writable(self) -> bool:
        return True

    def write(self, chunk: Any, /) -> int:
        self._digest.update(chunk)
        self._out.write(chunk)
        return len(chunk)
