"""A family's random checkpoint for vLLM on a processor, whose kernels have heads of 32 and more.

`python -m support.wide_checkpoints FAMILY FOLDER`, in a process of its own: modules of families
take the sizes of `support.families.checkpoints` as they are imported.
"""

import json
import sys
from pathlib import Path

from support.families import checkpoints

PROCESSORS = {
    "llava": {
        "processor_class": "LlavaProcessor",
        "patch_size": checkpoints.PATCH,
        "vision_feature_select_strategy": "default",
        "num_additional_image_tokens": 1,
    },
}
"""Family -> processor_config.json, which published checkpoints have and our engines do not need."""

if __name__ == "__main__":
    _, family, folder = sys.argv
    checkpoints.HIDDEN = 32 * checkpoints.HEADS
    checkpoints.SHARED["hidden_size"] = checkpoints.TEXT["hidden_size"] = checkpoints.HIDDEN
    from support.families import images

    made = images.write(family, Path(folder))
    (made / "processor_config.json").write_text(json.dumps(PROCESSORS[family]))
