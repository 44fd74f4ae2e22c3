"""Phi-3-vision as its own code computes it, after microsoft/Phi-3-vision-128k-instruct.

A port of processing_phi3_v.py, image_embedding_phi3_v.py and modeling_phi3_v.py (as published in
the checkpoint's repository and in lm-evaluation forks of it), with sizes of the checkpoint where
those have constants. It imports nothing of this project, and of transformers only the tower, as
the original does. Every token is computed from the entire sequence: nothing is kept.
"""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file

MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
PLACES = r"<\|image_\d+\|>"


def padded(image: Image.Image, side: int) -> Image.Image:
    """Return `padding_336`: white above and below, up to a multiple of the side of a tile."""
    width, height = image.size
    target = int(np.ceil(height / side) * side)
    canvas = Image.new("RGB", (width, target), (255, 255, 255))
    canvas.paste(image, (0, int((target - height) / 2)))
    return canvas


def hd_transform(image: Image.Image, crops: int, side: int) -> Image.Image:
    """Return `HD_transform`: the image scaled to its tiles."""
    width, height = image.size
    turned = width < height
    if turned:
        image = image.transpose(Image.Transpose.TRANSPOSE)
        width, height = image.size
    ratio = width / height
    scale = 1
    while scale * np.ceil(scale / ratio) <= crops:
        scale += 1
    scale -= 1
    wide = int(scale * side)
    image = image.resize((wide, int(wide / ratio)), Image.Resampling.BILINEAR)
    image = padded(image, side)
    return image.transpose(Image.Transpose.TRANSPOSE) if turned else image


class Upstream:
    """One checkpoint."""

    always_long = False
    """Rotate shorter sequences by the long factors too, which the original does not."""

    def __init__(self, folder: Path) -> None:
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text())
        settings = json.loads((folder / "preprocessor_config.json").read_text())
        self.weights = load_file(folder / "model.safetensors")
        self.tokenizer: Any = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
        self.crops = settings["num_crops"]
        seen = self.config["img_processor"]
        self.width, self.tokens = seen["image_dim_out"], seen["num_img_tokens"]
        self.lines = math.isqrt(self.tokens)
        self.side = 2 * self.lines * 14
        sizes = transformers.CLIPVisionConfig(
            hidden_size=self.width,
            intermediate_size=4 * self.width,
            num_hidden_layers=24,
            num_attention_heads=self.width // 64,
            image_size=self.side,
            patch_size=14,
        )
        self.tower: Any = transformers.CLIPVisionModel(sizes).eval()
        start = "model.vision_embed_tokens.img_processor.vision_model."
        own = {n.removeprefix(start): v for n, v in self.weights.items() if n.startswith(start)}
        self.tower.load_state_dict(own)

    def pixels(self, images: list[Image.Image]) -> tuple[torch.Tensor, list[list[int]], list[int]]:
        """Return `pixel_values` [images, crops + 1, 3, side, side], sizes and numbers of tokens."""
        side, found, sizes = self.side, [], []
        for image in images:
            scaled = hd_transform(image.convert("RGB"), self.crops, side)
            values = torch.from_numpy(np.asarray(scaled).copy()).permute(2, 0, 1).float() / 255
            values = (values - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
            view = torch.nn.functional.interpolate(values[None], size=(side, side), mode="bicubic")
            high, wide = values.shape[1:]
            cut = values.reshape(1, 3, high // side, side, wide // side, side)
            cut = cut.permute(0, 2, 4, 1, 3, 5).reshape(-1, 3, side, side)
            both = torch.cat([view, cut])
            empty = torch.zeros(self.crops + 1 - len(both), 3, side, side)
            found.append(torch.cat([both, empty]))
            sizes.append([high, wide])
        tokens = [
            int((h // side * (w // side) + 1) * self.tokens + 1 + (h // side + 1) * self.lines)
            for h, w in sizes
        ]
        # Clients of Triton send pixels in 16 bits.
        return torch.stack(found).half().float(), sizes, tokens

    def ids(self, prompt: str, counts: list[int]) -> list[int]:
        """Return `_convert_images_texts_to_inputs`: images are runs of -1, -2 and so on."""
        chunks = [self.tokenizer(chunk).input_ids for chunk in re.split(PLACES, prompt)]
        numbers = [int(one.split("|")[1].split("_")[-1]) for one in re.findall(PLACES, prompt)]
        assert sorted(set(numbers)) == list(range(1, len(counts) + 1))
        runs = [[-one] * counts[one - 1] for one in numbers]
        if not runs:
            return list(self.tokenizer(prompt).input_ids)
        ids: list[int] = []
        for chunk, run in zip(chunks, [*runs, []], strict=True):
            ids += [*chunk, *run]
        return ids

    def features(self, pixels: torch.Tensor, sizes: list[list[int]]) -> torch.Tensor:
        """Return `hd_feature_transform` of the selected layer: rows of all images, projected."""
        images, crops = pixels.shape[:2]
        states = self.tower(pixels.flatten(0, 1), output_hidden_states=True).hidden_states
        states = states[self.config["img_processor"].get("layer_idx", -2)]
        patches = states[:, 1:].reshape(images, crops, -1, self.width)
        end = self.weights["model.vision_embed_tokens.sub_GN"]
        separator = self.weights["model.vision_embed_tokens.glb_GN"]
        rows = []
        for image, (high, wide) in zip(patches, sizes, strict=True):
            h, w = high // self.side, wide // self.side
            cut = self._newline(self._merged(image[1 : 1 + h * w], h, w), end)
            view = self._newline(self._merged(image[:1], 1, 1), end)
            rows += [cut.squeeze(0), separator.squeeze(0), view[0]]
        return self._projected(torch.cat(rows))

    def _merged(self, features: torch.Tensor, h: int, w: int) -> torch.Tensor:
        count, length, width = features.shape
        side = int(length**0.5)
        return (
            features.reshape(count, side, side, width)
            .reshape(count, side // 2, 2, side // 2, 2, width)
            .permute(0, 1, 3, 2, 4, 5)
            .reshape(count, -1, 4 * width)
            .reshape(count // (h * w), h, w, side // 2, side // 2, -1)
            .permute(0, 1, 3, 2, 4, 5)
            .reshape(count // (h * w), h * side // 2, w * side // 2, 4 * width)
        )

    def _newline(self, grid: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
        images, high, _, width = grid.shape
        ends = end.expand(images, high, -1, -1)
        return torch.cat([grid, ends], dim=2).reshape(images, -1, width)

    def _projected(self, rows: torch.Tensor) -> torch.Tensor:
        start = "model.vision_embed_tokens.img_projection"
        linear = torch.nn.functional.linear
        inner = linear(rows, self.weights[f"{start}.0.weight"], self.weights[f"{start}.0.bias"])
        inner = torch.nn.functional.gelu(inner)
        return linear(inner, self.weights[f"{start}.2.weight"], self.weights[f"{start}.2.bias"])

    @torch.no_grad()
    def answer(
        self, prompt: str, images: list[Image.Image], most: int, ends: set[int]
    ) -> list[int]:
        """Return the likeliest tokens after a prompt with `<|image_1|>` and so on."""
        table, counts = torch.zeros(0), list[int]()
        if images:
            pixels, sizes, counts = self.pixels(images)
            table = self.features(pixels, sizes)
        ids = self.ids(prompt, counts)
        embedding = self.weights["model.embed_tokens.weight"]
        states = embedding[torch.tensor(ids).clamp_min(0)]
        places = torch.tensor(ids) < 0
        if images:
            states[places] = table
        answer: list[int] = []
        while len(answer) < most:
            token = int(self._logits(states).argmax())
            if token in ends:
                break
            answer.append(token)
            states = torch.cat([states, embedding[token][None]])
        return answer

    def _rotations(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return Phi3SuScaledRotaryEmbedding's cosines and sines [count, head size]."""
        config = self.config
        head = config["hidden_size"] // config["num_attention_heads"]
        original = config["original_max_position_embeddings"]
        scaling = config["rope_scaling"]
        is_long = self.always_long or count > original
        factors = scaling["long_factor" if is_long else "short_factor"]
        powers = torch.arange(0, head, 2, dtype=torch.int64).float() / head
        frequencies = 1.0 / (torch.tensor(factors) * config["rope_theta"] ** powers)
        angles = torch.arange(count).float()[:, None] * frequencies
        both = torch.cat((angles, angles), dim=-1)
        scale = config["max_position_embeddings"] / original
        factor = math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0
        return both.cos() * factor, both.sin() * factor

    def _logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits behind the last of some states [tokens, hidden]."""
        config, weights = self.config, self.weights
        heads, pairs = config["num_attention_heads"], config["num_key_value_heads"]
        head = config["hidden_size"] // heads
        cosines, sines = self._rotations(len(states))

        def norm(values: torch.Tensor, name: str) -> torch.Tensor:
            variance = values.pow(2).mean(-1, keepdim=True)
            return weights[name] * (values * torch.rsqrt(variance + config["rms_norm_eps"]))

        def turned(values: torch.Tensor) -> torch.Tensor:
            first, second = values.chunk(2, dim=-1)
            return values * cosines + torch.cat((-second, first), dim=-1) * sines

        for number in range(config["num_hidden_layers"]):
            layer = f"model.layers.{number}"
            read = norm(states, f"{layer}.input_layernorm.weight")
            joined = read @ weights[f"{layer}.self_attn.qkv_proj.weight"].T
            sizes = [heads * head, pairs * head, pairs * head]
            queries, keys, values = (
                one.reshape(len(states), -1, head).transpose(0, 1)
                for one in joined.split(sizes, -1)
            )
            keys, values = (one.repeat_interleave(heads // pairs, 0) for one in (keys, values))
            scores = turned(queries) @ turned(keys).transpose(1, 2) / math.sqrt(head)
            later = torch.ones(len(states), len(states), dtype=torch.bool).triu(1)
            mixed = scores.masked_fill(later, -torch.inf).softmax(-1) @ values
            mixed = mixed.transpose(0, 1).reshape(len(states), -1)
            states = states + mixed @ weights[f"{layer}.self_attn.o_proj.weight"].T
            read = norm(states, f"{layer}.post_attention_layernorm.weight")
            gate, up = (read @ weights[f"{layer}.mlp.gate_up_proj.weight"].T).chunk(2, -1)
            inner = up * torch.nn.functional.silu(gate)
            states = states + inner @ weights[f"{layer}.mlp.down_proj.weight"].T
        return norm(states[-1:], "model.norm.weight") @ weights["lm_head.weight"].T
