"""PURE: frames of high dynamic range (HDR) -> colours of a screen, as Chromium shows them there.

Taken as they are, such frames are grey and pale: their numbers mean light of up to 10,000 cd/m2.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

PQ, HLG = 16, 18
"""Transfer characteristics of H.273: SMPTE ST 2084, and ARIB STD-B67 (Hybrid Log-Gamma)."""

CURVES = frozenset({PQ, HLG})

_WHITE = 203.0
"""cd/m2 of white paper in HDR (ITU-R BT.2408)."""

_PEAK = 1000.0
"""cd/m2 of the brightest light that stays distinguishable; what HLG is defined for (BT.2100)."""

_HLG_GAMMA = 1.2
_ROWS = 256
_STEPS = 65_535

_LUMA = np.array([0.2627, 0.6780, 0.0593], np.float32)
_TO_709 = np.array(
    [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]],
    np.float32,
)
"""From BT.2020 (BT.2087)."""


def tone_mapped(image: Image.Image, curve: int) -> Image.Image:
    """Return an RGB image in sRGB.

    `image`: whose numbers follow the curve, in the colours of BT.2020. `curve`: one of `CURVES`.
    """
    light, shown = _light(curve), _shown()
    result = Image.new("RGB", image.size)
    # Some rows at a time: in floating point they take twelve times as much.
    for top in range(0, image.height, _ROWS):
        band = np.asarray(image.crop((0, top, image.width, min(top + _ROWS, image.height))))
        linear = light[band]
        if curve == HLG:
            scene = np.maximum(linear @ _LUMA, 1e-6)[..., None]
            linear = linear * scene ** (_HLG_GAMMA - 1) * (_PEAK / _WHITE)
        linear = np.maximum(linear @ _TO_709.T, 0)
        most = linear.max(axis=-1, keepdims=True)
        linear *= (1 + most * (_WHITE / _PEAK) ** 2) / (1 + most)
        steps = (np.minimum(linear, 1) * _STEPS).astype(np.uint16)
        result.paste(Image.fromarray(shown[steps]), (0, top))
    return result


def _light(curve: int) -> NDArray[np.float32]:
    """Return the light of each of 256 steps: PQ's in whites, HLG's of the scene, up to 1."""
    said = np.linspace(0, 1, 256)
    if curve == HLG:
        bright = (np.exp((said - 0.55991073) / 0.17883277) + 0.28466892) / 12
        return np.asarray(np.where(said <= 0.5, said**2 / 3, bright), np.float32)  # noqa: PLR2004
    power = said ** (1 / 78.84375)
    relative = np.maximum(power - 0.8359375, 0) / (18.8515625 - 18.6875 * power)
    return np.asarray(10_000 / _WHITE * relative ** (1 / 0.1593017578125), np.float32)


def _shown() -> NDArray[np.uint8]:
    light = np.linspace(0, 1, _STEPS + 1)
    curved = 1.055 * light ** (1 / 2.4) - 0.055
    return (np.where(light <= 0.0031308, 12.92 * light, curved) * 255).round().astype(np.uint8)  # noqa: PLR2004
