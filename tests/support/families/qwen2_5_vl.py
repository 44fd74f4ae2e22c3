"""Qwen2.5-VL for tests: a tower of which one layer sees windows and the other one all."""

from pathlib import Path

from support.families.case import Case
from support.families.checkpoints import HIDDEN, SIDE
from support.families.qwen2_vl import CASE as QWEN2_VL
from support.families.qwen2_vl import video, write_images, write_qwen


def write(folder: Path) -> None:
    windows = {"window_size": 2 * SIDE, "fullatt_block_indexes": [1], "tokens_per_second": 2}
    tower = {"intermediate_size": 48, "out_hidden_size": HIDDEN, **windows}
    write_qwen(folder, "Qwen2_5_VL", tower, {})
    write_images(folder)


CASE = Case(
    write,
    prompt=QWEN2_VL.prompt,
    mark=QWEN2_VL.mark,
    video_mark=QWEN2_VL.video_mark,
    image_processor=QWEN2_VL.image_processor,
    vision_config="transformers:Qwen2_5_VLVisionConfig",
    more=QWEN2_VL.more,
    video=video,
    refused_configurations=(({"use_sliding_window": True}, "use_sliding_window"),),
)
