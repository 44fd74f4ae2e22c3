"""A decoded frame -> the image that a player shows: its colours, shape and direction."""

import struct
from typing import TYPE_CHECKING, cast

from PIL import Image

from mm_runtime.gateway.media.container import BadRecordingError
from mm_runtime.images.media import check_pixels, to_rgb

if TYPE_CHECKING:
    from av.buffer import Buffer
    from av.filter.graph import Graph
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

_UNSPECIFIED = 2
"""Code of a matrix of colours, as H.273 counts them."""

_HD = (1280, 576)
"""Frames that are wider or higher, and do not name their matrix, have that of BT.709, smaller ones
that of BT.601: the rule of mpv."""

_WIDE, _HDR = frozenset({9, 12}), frozenset({16, 18})
"""Codes of H.273: primaries of BT.2020 and Display P3; curves of PQ and HLG."""

_ON_A_SCREEN = "out_primaries=bt709:out_transfer=iec61966-2-1:intent=perceptual"
"""What FFmpeg makes sRGB with. Taken as they are, frames of HDR would be grey and pale."""

_FULL_RANGE = 2
_MATRIX = struct.Struct("=9i")
_MOST_STRETCHED = 16
"""A pixel's width by its height, or the reverse; videos of 1:2.4 on 4:3 have 1.8."""

_TURNS: dict[tuple[int, int, int, int], Image.Transpose] = {
    (0, 1, -1, 0): Image.Transpose.ROTATE_270,
    (-1, 0, 0, -1): Image.Transpose.ROTATE_180,
    (0, -1, 1, 0): Image.Transpose.ROTATE_90,
    (-1, 0, 0, 1): Image.Transpose.FLIP_LEFT_RIGHT,
    (1, 0, 0, -1): Image.Transpose.FLIP_TOP_BOTTOM,
    (0, 1, 1, 0): Image.Transpose.TRANSPOSE,
    (0, -1, -1, 0): Image.Transpose.TRANSVERSE,
}
"""Signs of the display matrix (a, b, c, d) -> what it does to a frame; (1, 0, 0, 1) is nothing."""


class Shape:
    """How the frames of a stream are stretched and turned."""

    def __init__(self, stream: "VideoStream", max_pixels: int) -> None:
        """Read what the stream says.

        Raises:
            BadRecordingError: pixels of no shape that videos have.
        """
        said = stream.sample_aspect_ratio
        self._aspect = float(said) if said else 1.0
        self._max_pixels = max_pixels
        self._turn: Image.Transpose | None = None
        self.unknown = True
        self._size: tuple[int, int] | None = None
        self._graphs: dict[tuple[int, int, str], Graph] = {}
        if not 1 / _MOST_STRETCHED <= self._aspect <= _MOST_STRETCHED:
            raise BadRecordingError(
                f"the recording's pixels are {said} times as wide as high; expected 1:"
                f"{_MOST_STRETCHED} to {_MOST_STRETCHED}:1"
            )

    def learn(self, frame: "VideoFrame") -> None:
        """Read how frames are turned from one that the container's own decoder made."""
        self.unknown = False
        matrix = cast("Buffer | None", frame.side_data.get("DISPLAYMATRIX"))
        if matrix is None or len(bytes(matrix)) < _MATRIX.size:
            return
        a, b, _, c, d, *_ = _MATRIX.unpack(bytes(matrix)[: _MATRIX.size])
        largest = max(map(abs, (a, b, c, d)))
        if largest:
            self._turn = _TURNS.get(tuple(round(one / largest) for one in (a, b, c, d)))

    def shown(self, frame: "VideoFrame") -> Image.Image:
        """Return a frame as it is to be looked at, as large as the first one.

        Raises:
            BadImageError: it has more pixels than an image may have once it is stretched.
        """
        image = _coloured(self._on_a_screen(frame))
        width, height = image.size
        # As Chromium: one side grows, neither shrinks.
        if self._aspect > 1:
            width = round(width * self._aspect)
        elif self._aspect < 1:
            height = round(height / self._aspect)
        check_pixels((width, height), self._max_pixels)
        # A video may change its size in the middle; its window stays.
        self._size = self._size or (width, height)
        if image.size != self._size:
            image = image.resize(self._size, Image.Resampling.BICUBIC)
        return image if self._turn is None else image.transpose(self._turn)

    def _on_a_screen(self, frame: "VideoFrame") -> "VideoFrame":
        """Return a frame in the colours of a screen, itself where it is."""
        if frame.color_trc not in _HDR and frame.color_primaries not in _WIDE:
            return frame
        setup = (frame.width, frame.height, frame.format.name)
        # Its table takes a second of a core to make: once for a video.
        graph = self._graphs[setup] = self._graphs.get(setup) or _graph_of(frame)
        graph.vpush(frame)
        return graph.vpull()


def _graph_of(frame: "VideoFrame") -> "Graph":
    from av.filter import Graph  # noqa: PLC0415 (see `mm_runtime.gateway.media.container`)

    graph = Graph()
    graph.threads = 1
    source = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=frame.time_base
    )
    steps = (graph.add("scale", _ON_A_SCREEN), graph.add("format", "rgb24"))
    graph.link_nodes(source, *steps, graph.add("buffersink")).configure()
    return graph


def _coloured(frame: "VideoFrame") -> Image.Image:
    """Return RGB, transparency on white, and what is brighter than a screen within its range."""
    width, height = _HD
    guessed = (
        frame.colorspace == _UNSPECIFIED
        and frame.color_range != _FULL_RANGE
        and (frame.width > width or frame.height > height)
    )
    matrix = "ITU709" if guessed else None
    kind = "rgba" if any(one.is_alpha for one in frame.format.components) else "rgb24"
    image = Image.fromarray(frame.reformat(format=kind, src_colorspace=matrix).to_ndarray())
    return to_rgb(image)
