"""LoRA adapters of trtllm-serve on PyTorch: what it refuses, what it drops, by whom it answers.

Sources: LoRARequest of tensorrt_llm/executor/request.py, _enqueue_request of its worker,
tensorrt_llm/lora_manager.py and cpp/tensorrt_llm/runtime/loraUtils.cpp, of 1.1 and 1.2.
"""

import json
import re
import threading
from pathlib import Path
from typing import Any

from arguments import refuse
from files import read_header

CONFIG = {
    *("lora_dir", "lora_ckpt_source", "max_lora_rank", "lora_target_modules", "max_loras"),
    *("trtllm_modules_to_hf_modules", "max_cpu_loras", "swap_gate_up_proj_lora_b_weight"),
}
"""Fields of LoraConfig."""

MODULES = {
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_dense",
    "gate_proj": "mlp_h_to_4h",
    "down_proj": "mlp_4h_to_h",
    "up_proj": "mlp_gate",
}
"""get_default_trtllm_modules_to_hf_modules, of models without experts."""

TENSOR = re.compile(r"(.*)\.(\d+)\.(\w+)\.(\w+)\.lora_(A|B)\.weight$")
MOST_RANK = 64
"""Where `max_lora_rank` is not given."""


class RefusedAdapterError(Exception):
    """A request that upstream answers with 400."""


class Adapters:
    """Those that the server has read, by the ids of requests."""

    def __init__(self, options: dict[str, Any], *, generates: bool) -> None:
        self._generates = generates
        self._config: dict[str, Any] | None = options.get("lora_config")
        self._names: dict[int, str] = {}
        self._lock = threading.Lock()
        if self._config is None:
            return
        if foreign := set(self._config) - CONFIG:
            refuse(f"LoraConfig.__init__() got an unexpected keyword argument '{min(foreign)}'")
        if foreign := set(self._config.get("lora_target_modules", [])) - {*MODULES.values()}:
            refuse(f"Unknown LoRA module {min(foreign)}")

    def answering(self, request: dict[str, Any] | None) -> str | None:
        """Return the name of the adapter that answers; None: the checkpoint does.

        One that is known by its id is not read again, whatever the request says of it.

        Raises:
            RefusedAdapterError: it cannot be read or applied.
        """
        if request is None:
            return None
        name, uid, path = (request.get(f"lora_{field}") for field in ("name", "int_id", "path"))
        if not isinstance(name, str) or not isinstance(uid, int):
            raise RefusedAdapterError("lora_request: lora_name and lora_int_id: Field required")
        if path is not None and not Path(path).exists():
            raise RefusedAdapterError(f"lora_path ({path}) does not exist.")
        if self._config is None:
            return None  # without lora_config there is no manager of adapters, and no error
        if self._generates:
            raise RefusedAdapterError("adapters are not recorded where a checkpoint answers")
        with self._lock:
            if uid not in self._names:
                self._read(Path(path or ""), self._config)
                self._names[uid] = name
            return self._names[uid]

    def _read(self, folder: Path, config: dict[str, Any]) -> None:
        try:
            rank = json.loads((folder / "adapter_config.json").read_text())["r"]
            header = read_header(folder / "adapter_model.safetensors")
        except OSError as error:
            raise RefusedAdapterError(str(error)) from error
        for tensor in sorted(set(header) - {"__metadata__"}):
            found = TENSOR.match(tensor)
            if found is None:
                raise RefusedAdapterError(f"unsupported key {tensor} from HF LoRA weights")
            if found[4] not in MODULES:
                raise RefusedAdapterError(f"hf_module {found[4]} is not in supported list")
            if MODULES[found[4]] not in config.get("lora_target_modules", []):
                print(f"LoRA module '{MODULES[found[4]]}' not in target modules, skipping.")
        most = config.get("max_lora_rank", MOST_RANK)
        if rank > most:
            raise RefusedAdapterError(
                f"Invalid low_rank ({rank}). low_rank must be smaller than mMaxLowRank ({most})"
            )
