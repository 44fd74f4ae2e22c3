#!/bin/sh
# The requests of NVIDIA's guide "Deploying Hugging Face Qwen2.5-VL Model in Triton", as they are but
# for the addresses of model and images, and the same question by `generate` and `generate_stream`.
# https://github.com/triton-inference-server/tutorials, Popular_Models_Guide/Qwen2.5-VL, 9511717d
# (container 26.07, TensorRT-LLM 1.2.1).
#
#     requests.sh http://HOST:8000/v2/models/llmapi QUESTION IMAGE-URL IMAGE-URL
set -eu
model=$1 question=$2 image=$3 second=$4

infer() {
    curl -s "$model/infer" -H 'Content-Type: application/json' -d '{
  "inputs": [
    {"name":"text_input","shape":[1],"datatype":"BYTES","data":["'"$question"'"]},
    '"$1"',
    {"name":"sampling_param_max_tokens","shape":[1],"datatype":"INT32","data":[64]},
    {"name":"sampling_param_exclude_input_from_output","shape":[1],"datatype":"BOOL","data":[true]}
  ],
  "outputs": [{"name":"text_output"}]
}'
    echo
}

generate() {
    curl -s "$model/$1" -d '{"text_input": "'"$question"'", "image_url": "'"$image"'",
  "sampling_param_max_tokens": 64, "sampling_param_exclude_input_from_output": true}'
    echo
}

infer '{"name":"image_url","shape":[1],"datatype":"BYTES","data":["'"$image"'"]}'
infer '{"name":"image_url","shape":[2],"datatype":"BYTES","data":["'"$image"'","'"$second"'"]}'
generate generate
generate generate_stream
