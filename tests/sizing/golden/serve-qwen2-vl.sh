# qwen2-vl: qwen2-vl for 1 x NVIDIA-H100-80GB-HBM3
# TensorRT-LLM 1.1.0
# In a folder where models/qwen2-vl is the checkpoint.
set -eu

cat > serve.yaml <<'YAML'
enable_iter_perf_stats: true
kv_cache_config:
  enable_block_reuse: false
  free_gpu_memory_fraction: 0.903
max_input_len: 2304
return_perf_metrics: true
YAML

trtllm-serve models/qwen2-vl \
  --backend pytorch \
  --host 127.0.0.1 \
  --port 8000 \
  --max_batch_size 8 \
  --max_num_tokens 8192 \
  --max_seq_len 3072 \
  --max_beam_width 1 \
  --extra_llm_api_options serve.yaml
