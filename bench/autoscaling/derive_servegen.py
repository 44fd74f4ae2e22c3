"""Derives `data/servegen-mm-image.json` from a checkout of ServeGen's `data/multimodal/mm-image`.

Keeps, per client: rate and coefficient of variation of each 600 s window, and 65 quantiles of
image, text and output tokens over the day. Run once: `derive_servegen.py FOLDER`.
"""

import ast
import csv
import json
import sys
from pathlib import Path

QUANTILES = 64
TOKENS = ("image_tokens", "text_tokens", "output_tokens")
OUTPUT = Path(__file__).parent / "data" / "servegen-mm-image.json"


def main(folder: Path) -> None:
    """Write the derived form."""
    clients = [
        _client(folder, number) for number in range(len(list(folder.glob("chunk-*-trace.csv"))))
    ]
    body = {"window_seconds": 600, "clients": clients}
    OUTPUT.write_text(json.dumps(body, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{OUTPUT}: {len(clients)} clients, {OUTPUT.stat().st_size} bytes")


def _client(folder: Path, number: int) -> dict[str, object]:
    trace = (folder / f"chunk-{number}-trace.csv").read_text(encoding="utf-8").splitlines()
    rows = [(float(row[1]), float(row[2] or 0)) for row in csv.reader(trace)]
    windows = json.loads((folder / f"chunk-{number}-dataset.json").read_text(encoding="utf-8"))
    return {
        "rates": [round(rate, 4) for rate, _ in rows],
        "variations": [round(variation, 3) for _, variation in rows],
        **{name: _quantiles(windows, name) for name in TOKENS},
    }


def _quantiles(windows: dict[str, dict[str, str]], name: str) -> list[int]:
    weights: dict[float, float] = {}
    for window in windows.values():
        for value, share in ast.literal_eval(window[name]).items():
            weights[float(value)] = weights.get(float(value), 0.0) + share
    total, below, found = sum(weights.values()), 0.0, []
    ordered = sorted(weights)
    marks = [index / QUANTILES for index in range(QUANTILES + 1)]
    position = 0
    for mark in marks:
        while position < len(ordered) - 1 and below + weights[ordered[position]] < mark * total:
            below += weights[ordered[position]]
            position += 1
        found.append(round(ordered[position]))
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
