# make demo | test | quick | check | install | tensorboard | browser | bench: each creates .venv and installs what it needs by itself.

PYTHON ?= python3
SHELL := bash
.SHELLFLAGS := -o pipefail -c
VENV := .venv
BIN := $(VENV)/bin
# Errors only: of warnings some package indexes cause hundreds.
PIP := $(BIN)/python -m pip install -qq

# With a GPU the exact release (CUDA); without one any build of it, so that pip may choose a CPU build where it knows one.
TORCH ?= torch$(if $(shell command -v nvidia-smi),===,==)$(shell sed -n 's/^torch==//p' constraints.txt)

# Empty for the newest releases.
CONSTRAINTS ?= --constraint constraints.txt

.PHONY: demo test quick check install tensorboard browser bench

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) "$(TORCH)"
	$(PIP) $(CONSTRAINTS) --editable ".[dev]"
	touch $@

# Goes on where it was interrupted; a finished run is not trained again.
define train
	if [ -e runs/$(1)/checkpoints/last ]; then $(BIN)/python train.py resume=runs/$(1); \
	else $(BIN)/python train.py +experiment=$(1) name=$(1); fi
endef

demo: install
	@$(call train,demo_gpt)
	@$(call train,demo_enja)
	@echo
	@$(BIN)/python generate.py run=runs/demo_gpt prompt="" samples=6 | $(BIN)/python -m training.demo_screen runs/demo_gpt runs/demo_enja

test: install
	$(BIN)/python -m pytest

# What needs no browser, no processes and no training beyond a few steps: under a minute on two cores.
quick: install
	$(BIN)/python -m pytest -m "not slow and not browser and not gpu"

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

tensorboard: install
	$(BIN)/tensorboard --logdir runs

# What the tests of the Attention tab drive (Debian's packages, as root); without a browser they are skipped and say so.
browser:
	@command -v chromium > /dev/null && command -v chromedriver > /dev/null && fc-list :lang=ja | grep -q . || \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver fontconfig fonts-noto-cjk; }

# Ours beside the peers, more than an hour on two cores; nothing else should run. make bench NANOGPT=checkout TEXT=input.txt PAIRS=folder RUN=a trained translator
bench: install
	@: $${TEXT:?a text file is needed: make bench TEXT=input.txt PAIRS=folder} $${PAIRS:?a folder with train.en, train.ja is needed}
	$(PIP) $(CONSTRAINTS) --editable ".[bench]"
	$(BIN)/python -m benchmarks train_gpt shape=cpu data=$(TEXT) nanogpt=$(NANOGPT)
	$(BIN)/python -m benchmarks train_gpt shape=baby data=$(TEXT) nanogpt=$(NANOGPT)
	$(BIN)/python -m benchmarks train_translator data=$(PAIRS)
	for model in 0.8M 10.7M 124M; do for batch in 1 32; do \
	  $(BIN)/python -m benchmarks sample model=$$model batch=$$batch nanogpt=$(NANOGPT) || exit 1; done; done
	test -z "$(RUN)" || $(BIN)/python -m benchmarks beam run=$(RUN) sentences=$(PAIRS)/test.en
	$(BIN)/python -m benchmarks data text=$(TEXT) pairs=$(PAIRS)
	$(BIN)/python -m benchmarks recording
	$(BIN)/python -m benchmarks scaling data=$(TEXT)
	$(BIN)/python -m benchmarks curves data=$(TEXT)
	$(BIN)/python -m benchmarks table
