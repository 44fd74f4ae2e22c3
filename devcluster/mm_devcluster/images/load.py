"""Load images into a node's containerd, sending only the layers that it does not hold yet.

containerd 1.6 writes every blob of an archive again, even those it has (26 s for 1.2 GB), so the
layers that the store holds are left out of what it is sent: 0.07 s on top of a 4 GB image.
"""

import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from mm_devcluster.errors import DevClusterError
from mm_devcluster.images.oci import CHUNK, Image, write_archive

IMPORT_TIMEOUT = 900.0  # seconds; measured 124 s for 3 GB of layers at load 8
QUERY_TIMEOUT = 60.0
SMALL = 1 << 16  # bytes: manifests and configurations are always sent


@dataclass(frozen=True)
class Loaded:
    """What a load did."""

    references: tuple[str, ...]
    sent_bytes: int
    """Bytes of the blobs that were sent."""
    kept_bytes: int
    """Bytes of the blobs that the store held already."""


class Containerd:
    """A node's containerd, seen from the machine through its socket."""

    def __init__(self, socket: Path) -> None:
        self._ctr = ["ctr", "--address", str(socket), "--namespace", "k8s.io"]

    def digests(self) -> frozenset[str]:
        """Return the digest of every blob in the store."""
        return frozenset(self._query("content", "ls", "--quiet").split())

    def images(self) -> dict[str, str]:
        """Map each image's reference to the digest of its manifest."""
        rows = self._query("images", "ls").splitlines()[1:]
        return {row.split()[0]: row.split()[2] for row in rows if row}

    def load_archive(self, archive: Path) -> Loaded:
        """Load an OCI archive from a file.

        Raises:
            DevClusterError: It is not such an archive, or containerd refused it.
        """
        held = self.digests()
        sent = kept = 0
        before = self.images()
        try:
            with (
                tarfile.open(archive, mode="r:") as source,
                self._importing() as sink,
                tarfile.open(fileobj=sink, mode="w|", bufsize=CHUNK) as target,
            ):
                for member in source:
                    digest = member.name.removeprefix("blobs/").replace("/", ":")
                    if member.size > SMALL and digest in held:
                        kept += member.size
                    else:
                        sent += member.size
                        target.addfile(member, source.extractfile(member))
        except (tarfile.TarError, FileNotFoundError, IsADirectoryError) as error:
            raise DevClusterError(
                f"{archive} is not an OCI archive (a tar with index.json): {error}"
            ) from error
        changed = [name for name, digest in self.images().items() if before.get(name) != digest]
        return Loaded(tuple(name for name in changed if "@" not in name), sent, kept)

    def load(self, image: Image) -> Loaded:
        """Load an image from its parts, without an archive between; what is there is not sent.

        An import that was stopped leaves an image whose layers are not unpacked, at which the
        kubelet gives up after two minutes: an import of nothing unpacks them.

        Raises:
            DevClusterError: containerd refused it, or a layer is neither here nor there.
        """
        total = sum(layer.size for layer in image.layers)
        is_there = self.images().get(image.reference) == image.digest
        held = self.digests()
        lost = [x.digest for x in image.layers if x.path is None and x.digest not in held]
        if lost:
            raise DevClusterError(
                f"image {image.reference}: layer {lost[0]} is in no file and not in the store; "
                "build the image again"
            )
        with self._importing() as sink:
            write_archive(image, sink, leave_out=held)
        kept = sum(layer.size for layer in image.layers if layer.digest in held)
        return Loaded(() if is_there else (image.reference,), total - kept, kept)

    def _importing(self) -> "_Import":
        return _Import([*self._ctr, "images", "import", "-"])

    def _query(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._ctr, *arguments],
            capture_output=True,
            text=True,
            timeout=QUERY_TIMEOUT,
            check=False,
        )
        if done.returncode:
            raise DevClusterError(f"ctr {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout


class _Import:
    """A running import: a stream to write an archive to; leaving it waits for the verdict."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> IO[bytes]:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdin is not None  # noqa: S101 - it was requested above
        return self._process.stdin

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        process = self._process
        assert process is not None  # noqa: S101 - entered before
        if error is not None and not isinstance(error, BrokenPipeError):
            process.kill()
            process.communicate()
            return
        try:
            _, complaint = process.communicate(timeout=IMPORT_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        if process.returncode or error is not None:
            raise DevClusterError(f"containerd refused the image: {complaint.decode().strip()}")
