# Thin: every target is one command that also works by itself. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
# Where it is set each of a thousand processes compiles torch and transformers again.
unexport PYTHONDONTWRITEBYTECODE
# dev: the development cluster on this machine. current: the kubectl context you already use.
CLUSTER ?= dev
# For CLUSTER=current: images that its nodes can pull (operator/Dockerfile, runtime/Dockerfile).
OPERATOR_IMAGE ?=
RUNTIME_IMAGE ?=
# What `make demo` serves: llava-tiny answers about images, qwen2.5-vl-tiny about images and a video.
FAMILY ?= llava-tiny
# Reference, or VLLM: vLLM's build for CPUs as it is (llava-tiny; 5 GB, AVX512).
BACKEND ?= Reference
# Addresses of the node, pods and Services of a development cluster: IPv4 or IPv6.
IP_FAMILY ?= IPv4
# `make demo-down PURGE=1` deletes the caches too: programs, image layers, image stores, uv.
PURGE ?=
DEMO := $(BIN)/python -m mm_devcluster.demo
PYTEST ?= $(BIN)/pytest
# Of `make test`. Three kept two cores busy without a pause, and two tests ran out of time.
LANES ?= 2

.PHONY: help nightly gpu-test faults soak twin twin-test env-vllm vllm-test bench-autoscaling bench-gateway openai-test generated-requests env demo demo-autoscaling demo-bench screenshots demo-down programs unit coverage test test-faults engine-test mutants flakes python-test adversarial-test observability-test keda-test inference-test gateway-api-test groups-test check lint docs release size format types generate generated lock clean

help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
	@echo
	@echo 'make demo CLUSTER=current OPERATOR_IMAGE=... RUNTIME_IMAGE=...   the current kubectl context instead'
	@echo 'make demo FAMILY=qwen2.5-vl-tiny                                 images and a video'
	@echo 'make demo BACKEND=VLLM                                          vLLM as it is, on this processor'
	@echo 'make demo CLUSTER=six IP_FAMILY=IPv6                             node, pods and Services of IPv6 alone'
	@echo 'make demo-down PURGE=1                                           and delete the caches'

env: ## Make .venv with the pinned environment; does nothing when it is up to date
	@tools/bootstrap.sh

# Without an environment the download of one and the compilation of Kubernetes run side by side.
demo: ## From nothing to right answers about images, on a real Kubernetes on this machine
	@[ -e .venv/.stamp ] || [ '$(CLUSTER)' = current ] || (cd devcluster && exec python3.11 -m mm_devcluster.binaries >/dev/null 2>&1) &
	@tools/bootstrap.sh
	@$(DEMO) up --cluster '$(CLUSTER)' --family '$(FAMILY)' --backend '$(BACKEND)' --ip-family '$(IP_FAMILY)' --operator-image '$(OPERATOR_IMAGE)' --runtime-image '$(RUNTIME_IMAGE)'

demo-autoscaling: demo ## After `make demo`: load, replicas that follow it, and the explanation
	@$(BIN)/python -m mm_devcluster.demo.autoscaling --cluster '$(CLUSTER)'

screenshots: env ## After `make demo`: docs/images again: dashboards from a real Prometheus, and mmctl ui (4 min)
	@$(BIN)/python tools/screenshots.py

demo-bench: env ## After `make demo`: the hundred requests of DashInfer-VLM's guide, and their table
	@$(BIN)/python -m mm_devcluster.demo.bench --cluster '$(CLUSTER)' --family '$(FAMILY)'

demo-down: env ## Remove every trace of the demo: processes, mounts, network, files (caches stay)
	@$(DEMO) down --cluster '$(CLUSTER)' $(if $(PURGE),--purge)

# Before the tests, not in one: a test has ten minutes, and a busy machine compiles Kubernetes longer.
# Where it cannot be compiled the tests that need it say so. Progress goes to stderr, paths to stdout.
programs: env ## Compile what clusters and buckets of tests run; does nothing when it is there
	@$(BIN)/mm-devcluster build >/dev/null
	@$(BIN)/mm-devcluster build versitygw >/dev/null

# A lane more than cores: a fifth of these tests' time is waiting for deadlines.
unit: env ## The tests that need no torch, Triton, root or cluster, in parallel; prints what they took
	@$(BIN)/python tools/unit.py -q -n $$(($$(nproc) + 1)) --dist loadgroup

coverage: env ## The same with coverage: at least 85 % of the lines of each pure package run
	@$(BIN)/python tools/pure_coverage.py

test: env ## All tests that take seconds, LANES=2 at a time: real API server, Triton, Helm, the entire cluster
	-@$(MAKE) --no-print-directory programs
	$(PYTEST) -n $(LANES) --dist loadgroup -m 'not slow and not adversarial and not gpu and not twin'

test-faults: env ## The tests that take minutes: faults on the real cluster, one after the other
	$(PYTEST) -m slow

faults: env ## N=1000 lives of models on LANES=2 real control planes, each with a fault: SEED=1; bench/operator/results
	$(BIN)/python bench/operator/faulty_lives.py --scenarios $(or $(N),1000) --seed $(or $(SEED),1) --lanes $(LANES)

soak: env ## MINUTES=120 of requests, edits, kills and faults; what grows in operator, router, gateway or Triton: bench/operator/results
	nice -n 10 $(BIN)/python bench/operator/system_soak.py --minutes $(or $(MINUTES),120)

adversarial-test: env ## Attack a real gateway and a real operator; prints what each attack cost others
	$(PYTEST) -m adversarial -rA tests/adversarial

gpu-test: env ## On a machine with a GPU: every family on CUDA, and a full memory pool (bench/gpu measures)
	$(PYTEST) -m gpu tests/gpu

twin: env ## A twin of NVIDIA's image of TensorRT-LLM VERSION=1.2.1: upstream's packages, ours, no more (3 GB)
	@tools/twin.sh '$(or $(VERSION),1.2.1)'

env-vllm: ## The real vLLM on the processor, .venv-vllm: an environment of its own (5 GB, AVX512)
	@tools/vllm.sh

vllm-test: env ## What the real vLLM answers behind the real gateway, where `make env-vllm` has made it; N=20000 generated requests of SEED=100
	MM_GENERATED_REQUESTS=$(or $(N),500) MM_GENERATED_SEED=$(or $(SEED),100) $(PYTEST) -m vllm tests/vllm

nightly: env ## All that `make test` leaves out, recorded in docs/design/nightly.json; SUITES="twin mutants" are these two
	@$(BIN)/python tools/nightly.py $(SUITES); code=$$?; $(BIN)/python tools/generate_nightly_page.py; exit $$code

twin-test: env ## What runs in NVIDIA's images, in each twin that is here
	$(PYTEST) -m twin tests/twin

generated-requests: env ## N=200000 requests made of the gateway's own OpenAPI document, each answer checked with openai's types; SEED=100
	MM_GENERATED_REQUESTS=$(or $(N),200000) MM_GENERATED_SEED=$(or $(SEED),100) $(PYTEST) -m adversarial tests/mm_runtime/gateway/test_generated_requests_are_answered.py

openai-test: env ## The conformance tests with the newest openai package instead of the pinned one
	tools/newest_openai.sh

bench-gateway: env ## What gateway and Triton add, tokens of streams, silent streams, images, JSON schemas: bench/gateway/results
	$(BIN)/python bench/gateway/own_cost.py
	$(BIN)/python bench/gateway/image_path.py
	$(BIN)/python bench/gateway/first_chunk.py
	$(BIN)/python bench/gateway/overhead.py

mutants: env ## Break 100 places of the pure packages; fails when tests notice fewer than 85 % (PART=1/4, ONLY=limits.py:120)
	$(BIN)/python tools/mutants.py --part '$(or $(PART),1/1)' --only '$(ONLY)'

flakes: env ## Run the tests of a change N times beside a busy core (N=20, BASE=commit, TESTS=...)
	$(BIN)/python tools/flakes.py --times '$(or $(N),20)' --base '$(or $(BASE),HEAD)' --tests '$(TESTS)'

python-test: env ## The tests of what goes into images with PYTHON=3.12, where that is installed
	@tools/other_python.sh $(or $(PYTHON),3.12)

engine-test: env ## 100,000 steps of clients that join, leave and break beside each other, in the Reference engine
	$(PYTEST) -m slow tests/mm_runtime/reference_engine/test_answers_do_not_depend_on_neighbours.py

observability-test: env ## Send every dashboard and rule expression to a real Prometheus, demo under load
	$(PYTEST) tests/mm_observability

keda-test: env ## Engine KEDA with the real KEDA, compiled the first time (17 CPU-minutes)
	MM_BUILD_KEDA=1 $(PYTEST) --log-cli-level=INFO tests/keda

inference-test: env ## A pool of the chart behind the real endpoint picker and Envoy, compiled the first time
	MM_BUILD_ENDPOINT_PICKER=1 $(PYTEST) tests/inference

gateway-api-test: env ## The chart's HTTPRoute before the router with the real Contour and Envoy, compiled the first time
	MM_BUILD_CONTOUR=1 $(PYTEST) tests/gateway_api

groups-test: env ## A replica of two pods with the real LeaderWorkerSet and vLLM (`make env-vllm`), compiled the first time
	MM_BUILD_LWS=1 $(PYTEST) -m slow tests/e2e/test_groups_of_nodes_answer.py

bench-autoscaling: env ## Simulate every autoscaling policy again; tables and figures of docs/studies/autoscaling.md
	$(BIN)/python bench/autoscaling/simulate_all.py
	$(BIN)/python bench/autoscaling/report.py

check: env lint types generated ## Everything that needs no root and no cluster
	$(PYTEST) -m 'not slow and not adversarial and not gpu and not twin and not cluster and not e2e and not s3'

release: env ## Images, chart, SBOMs, provenance, notes into dist/VERSION; REGISTRY=HOST/PATH, PUSH=1, KEY=cosign.key, DIST=folder (docs/design/releasing.md)
	$(BIN)/python tools/release.py --registry '$(REGISTRY)' $(if $(PUSH),--push) $(if $(KEY),--sign '$(KEY)') $(if $(DIST),--out '$(DIST)') $(if $(ALLOW_CHANGED),--allow-changed)

docs: ## The documentation as a site, site/index.html; fails on a broken link or a page outside the navigation
	@tools/docs.sh

lint: env ## ruff, import contracts, file sizes, names in prose, length of pages, vocabulary
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python tools/check_sizes.py
	$(BIN)/python tools/size.py
	$(BIN)/python tools/check_docs.py
	$(BIN)/python tools/check_pages.py
	$(BIN)/python tools/check_vocabulary.py

size: env ## How large the product is: each measure beside its ceiling and its goal
	@$(BIN)/python tools/size.py

format: env ## Reformat, and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: env ## mypy, strict
	$(BIN)/mypy

generate: env ## Write everything that is generated: CRD, chart copies, pages of docs
	@for generator in tools/generate_*.py; do $(BIN)/python $$generator || exit 1; done

generated: env ## Fail when a generated file is not what its source says
	@for generator in tools/generate_*.py; do $(BIN)/python $$generator --check || exit 1; done

lock: ## Pin the environments again; UPGRADE=--upgrade takes newer versions
	@tools/lock.sh $(UPGRADE)

clean: ## Remove .venv and the caches of the checks (not the cluster's cache)
	rm -rf .venv .venv-docs site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage
