# vila: vila for 1 x NVIDIA-H100-80GB-HBM3
# TensorRT-LLM 1.1.0
# In a folder where models/vila is the checkpoint.
set -eu

cat > serve.yaml <<'YAML'
enable_iter_perf_stats: true
kv_cache_config:
  enable_block_reuse: false
  free_gpu_memory_fraction: 0.95
max_input_len: 2048
return_perf_metrics: true
YAML

trtllm-serve models/vila \
  --backend pytorch \
  --host 127.0.0.1 \
  --port 8000 \
  --max_batch_size 8 \
  --max_num_tokens 8192 \
  --max_seq_len 2560 \
  --max_beam_width 1 \
  --extra_llm_api_options serve.yaml
