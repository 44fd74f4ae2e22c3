"""A port of VILA's own way from a conversation to an answer, for comparison.

Of NVlabs/VILA at 33b4f1a5: `generate_content`, `_embed`, `encode_images`, `merge_chessboard`,
`split_chessboard` and `merge_features_for_dynamic_s2` of llava_arch.py, `process_image`,
`dynamic_preprocess` and `dynamic_s2_preprocess` of mm_utils.py, `BasicImageEncoder`,
`extract_media`, `tokenize_conversation`, and the blocks of base_projector.py. Nothing of the
project is used; the tower and the language model are transformers' classes, as they are upstream's.
"""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from safetensors.torch import load_file

IMAGE = "<image>"


def find_closest_aspect_ratio(
    aspect: float, ratios: list[tuple[int, int]], width: int, height: int, size: int
) -> tuple[int, int]:
    """Return columns and rows."""
    best_diff, best = float("inf"), (1, 1)
    for ratio in ratios:
        diff = abs(aspect - ratio[0] / ratio[1])
        if diff < best_diff:
            best_diff, best = diff, ratio
        elif diff == best_diff and width * height > 0.5 * size * size * ratio[0] * ratio[1]:
            best = ratio
    return best


def dynamic_preprocess(image: Image.Image, least: int, most: int, size: int) -> list[Image.Image]:
    """Return the tiles of one image, and the thumbnail behind them."""
    width, height = image.size
    ratios = {
        (i, j)
        for n in range(least, most + 1)
        for i in range(1, n + 1)
        for j in range(1, n + 1)
        if least <= i * j <= most
    }
    in_order = sorted(ratios, key=lambda one: one[0] * one[1])
    columns, rows = find_closest_aspect_ratio(width / height, in_order, width, height, size)
    resized = image.resize((size * columns, size * rows))
    tiles = []
    for number in range(columns * rows):
        x, y = number % columns * size, number // columns * size
        tiles.append(resized.crop((x, y, x + size, y + size)))
    if len(tiles) != 1:
        tiles.append(image.resize((size, size)))
    return tiles


def dynamic_s2_preprocess(
    image: Image.Image, scales: list[int], most: int, size: int
) -> tuple[list[Image.Image], tuple[int, int]]:
    """Return the tiles of every scale, and rows and columns of the last one."""
    width, height = image.size
    least = (scales[-1] // scales[0]) ** 2
    found = []

    def add(columns: int, rows: int) -> None:
        wide = size * columns
        resized = image.resize((wide, size * rows))
        for i in range(columns * rows):
            x, y = (i % (wide // size)) * size, (i // (wide // size)) * size
            found.append(resized.crop((x, y, x + size, y + size)))

    for scale in scales[:-1]:
        add(scale // scales[0], scale // scales[0])
    ratios = {
        (i, j)
        for n in range(least, most + 1)
        for i in range(1, n + 1)
        for j in range(1, n + 1)
        if least <= i * j <= most
    }
    in_order = sorted(ratios, key=lambda one: one[0] * one[1])
    columns, rows = find_closest_aspect_ratio(width / height, in_order, width, height, size)
    add(columns, rows)
    return found, (rows, columns)


def merge_chessboard(x: torch.Tensor, high: int, wide: int) -> torch.Tensor:
    """Return squares that lie along the batch as one: [b, c, h, w]."""
    if x.dim() == 3:
        side = int(x.shape[1] ** 0.5)
        x = x.transpose(1, 2).reshape(x.shape[0], -1, side, side)
    b = x.shape[0] // (high * wide)
    rows = [
        torch.cat([x[(i * wide + j) * b : (i * wide + j + 1) * b] for j in range(wide)], dim=-1)
        for i in range(high)
    ]
    return torch.cat(rows, dim=-2)


def split_chessboard(x: torch.Tensor, high: int, wide: int) -> torch.Tensor:
    """Return the squares of [b, c, h, w] along the batch."""
    h, w = x.shape[2] // high, x.shape[3] // wide
    parts = [
        x[:, :, i * h : (i + 1) * h, j * w : (j + 1) * w] for i in range(high) for j in range(wide)
    ]
    return torch.cat(parts, dim=0)


def merge_features_for_dynamic_s2(
    features: torch.Tensor, blocks: list[tuple[int, int] | None], scales: list[int]
) -> tuple[list[torch.Tensor], list[tuple[int, int]]]:
    """Return what each image has at every scale, and the blocks it is split into."""
    merged, sizes, at = [], [], 0
    for block in blocks:
        if block is None:
            one = merge_chessboard(features[at : at + 1], 1, 1)
            merged.append(one.repeat(1, len(scales), 1, 1))
            sizes.append((1, 1))
            at += 1
            continue
        each = []
        for scale in scales[:-1]:
            split = scale // scales[0]
            each.append(merge_chessboard(features[at : at + split**2], split, split))
            at += split**2
        count = block[0] * block[1]
        each.append(merge_chessboard(features[at : at + count], block[0], block[1]))
        at += count
        output = each[-1].shape[-2:]
        interpolate = torch.nn.functional.interpolate
        merged.append(torch.cat([interpolate(x, size=output, mode="area") for x in each], dim=1))
        sizes.append(block)
    assert at == len(features)
    return merged, sizes


def flat_square(x: torch.Tensor, k: int) -> torch.Tensor:
    """Return blocks of k x k as upstream's views and permutations make them."""
    n, w, h, c = x.size()
    if w % k != 0:
        x = torch.concat([x, torch.zeros((n, k - w % k, h, c))], dim=1).contiguous()
        n, w, h, c = x.size()
    if h % k != 0:
        x = torch.concat([x, torch.zeros((n, w, k - h % k, c))], dim=2).contiguous()
        n, w, h, c = x.size()
    x = x.contiguous().view(n, w, h // k, c * k).permute(0, 2, 1, 3).contiguous()
    return x.view(n, h // k, w // k, c * k * k).permute(0, 2, 1, 3).contiguous()


class DownSample(torch.nn.Module):
    """DownSampleBlock, DownSample2x2BlockFix and DownSample3x3BlockFix."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the rows of each tile."""
        side = int(x.shape[1] ** 0.5)
        joined = flat_square(x.reshape(x.shape[0], side, side, -1), self.k)
        return joined.reshape(joined.shape[0], -1, joined.shape[-1])


def projector(kind: str, seen: int, hidden: int) -> torch.nn.Sequential:
    """Return `MultimodalProjector.layers`."""
    nn = torch.nn
    if kind == "mlp_downsample_3x3_fix":
        return nn.Sequential(
            DownSample(3),
            nn.LayerNorm(seen * 9),
            nn.Linear(seen * 9, seen * 3),
            nn.GELU(),
            nn.LayerNorm(seen * 3),
            nn.Linear(seen * 3, hidden),
            nn.GELU(),
            nn.Linear(hidden, hidden),
        )
    assert kind in {"mlp_downsample", "mlp_downsample_2x2_fix"}
    return nn.Sequential(
        DownSample(2),
        nn.LayerNorm(seen * 4),
        nn.Linear(seen * 4, hidden),
        nn.GELU(),
        nn.Linear(hidden, hidden),
    )


class Upstream:
    """One checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text())
        auto: Any = transformers.AutoModelForCausalLM
        self.llm = auto.from_pretrained(folder / "llm").eval()
        self.tower: Any = transformers.SiglipVisionModel.from_pretrained(folder / "vision_tower")
        self.tower.eval()
        kind = self.config["mm_projector_cfg"]["mm_projector_type"]
        hidden = self.llm.config.hidden_size
        several = self.config["image_aspect_ratio"] == "dynamic_s2"
        self.scales = [int(one) for one in self.config["s2_scales"].split(",")] if several else []
        seen = self.tower.config.hidden_size * max(1, len(self.scales))
        self.layers = projector(kind, seen, hidden).eval()
        stored = load_file(folder / "mm_projector" / "model.safetensors")
        self.layers.load_state_dict({n.removeprefix("layers."): v for n, v in stored.items()})
        tokens: Any = transformers.PreTrainedTokenizerFast
        self.tokenizer = tokens.from_pretrained(folder / "llm")
        self.tokenizer.add_tokens([IMAGE], special_tokens=True)
        self.image_id = self.tokenizer.convert_tokens_to_ids(IMAGE)
        processor: Any = transformers.SiglipImageProcessor
        self.processor = processor.from_pretrained(folder / "vision_tower")

    def pixels(self, images: list[Image.Image]) -> torch.Tensor:
        """Return the tiles of one image, or a tile of each of several; `blocks` follows them."""
        found = [image.convert("RGB") for image in images]
        self.blocks: list[tuple[int, int] | None] = [None] * len(found)
        if len(found) == 1 and self.scales:
            side, most = self.processor.size["height"], self.config["max_tiles"]
            found, block = dynamic_s2_preprocess(found[0], self.scales, most, side)
            self.blocks = [block]
        elif len(found) == 1 and self.config["image_aspect_ratio"] == "dynamic":
            size = self.processor.size["height"]
            least, most = self.config["min_tiles"], self.config["max_tiles"]
            found = dynamic_preprocess(found[0], least, most, size)
        values = [
            self.processor.preprocess(one, return_tensors="pt")["pixel_values"][0] for one in found
        ]
        return torch.stack(values).half().float()

    def text(self, parts: list[str | Image.Image], tiles: int) -> str:
        """Return the prompt of one message in parts."""
        images = sum(not isinstance(one, str) for one in parts)
        value = "".join(one if isinstance(one, str) else IMAGE for one in parts)
        if images == 1 and not self.scales:
            value = value.replace(IMAGE, f"{IMAGE}\n" * tiles)
        message = {"role": "user", "content": value.strip()}
        written = self.tokenizer.apply_chat_template(
            [message], add_generation_prompt=True, tokenize=False
        )
        assert isinstance(written, str)
        return written

    @torch.no_grad()
    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return `encode_images`: [tiles, features, hidden]."""
        states = self.tower(pixels, output_hidden_states=True).hidden_states
        found: torch.Tensor = self.layers(states[self.config["mm_vision_select_layer"]])
        return found

    @torch.no_grad()
    def scaled_features(self, pixels: torch.Tensor) -> list[torch.Tensor]:
        """Return `encode_images` with dynamic_s2: [features, hidden] of each image."""
        states = self.tower(pixels, output_hidden_states=True).hidden_states
        seen = states[self.config["mm_vision_select_layer"]]
        images, sizes = merge_features_for_dynamic_s2(seen, self.blocks, self.scales)
        split = [split_chessboard(x, *size) for x, size in zip(images, sizes, strict=True)]
        flat = torch.cat([x.flatten(2).transpose(1, 2) for x in split], dim=0)
        found = self.layers(flat).split([high * wide for high, wide in sizes], dim=0)
        merged = [merge_chessboard(x, *size) for x, size in zip(found, sizes, strict=True)]
        return [x[0].flatten(1).T for x in merged]

    def encode(self, pixels: torch.Tensor) -> list[torch.Tensor]:
        """Return the features of each placeholder of an image: of a tile, or of an image."""
        return self.scaled_features(pixels) if self.scales else list(self.features(pixels))

    @torch.no_grad()
    def embedded(self, parts: list[str | Image.Image]) -> torch.Tensor:
        """Return `_embed` [tokens, hidden]: behind each tile what BasicImageEncoder adds."""
        images = [one for one in parts if not isinstance(one, str)]
        pixels = self.pixels(images) if images else torch.zeros(0)
        ids = self.tokenizer(self.text(parts, len(pixels))).input_ids
        table = self.llm.get_input_embeddings()
        end = table(torch.tensor(self.tokenizer("\n").input_ids))
        media = [torch.cat([one, end]) for one in self.encode(pixels)] if images else []
        found = []
        for token in ids:
            row = media.pop(0) if token == self.image_id else table(torch.tensor([token]))
            found.append(row)
        assert not media
        return torch.cat(found)

    @torch.no_grad()
    def answer(self, parts: list[str | Image.Image], most: int, ends: set[int]) -> list[int]:
        """Return the likeliest tokens behind one message."""
        embedded = self.embedded(parts)[None]
        found: list[int] = self.llm.generate(
            inputs_embeds=embedded,
            attention_mask=torch.ones(embedded.shape[:2], dtype=torch.long),
            max_new_tokens=most,
            do_sample=False,
            eos_token_id=sorted(ends),
        )[0].tolist()
        stop = next((at for at, one in enumerate(found) if one in ends), len(found))
        return found[:stop]
