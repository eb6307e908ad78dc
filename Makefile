# make demo | test | quick | test-long | test-versions | fuzz | torture | check | install | tensorboard | browser | strace | bench
# Every target creates its environment and installs its dependencies.

PYTHON ?= python3
SHELL := bash
VENV := .venv
BIN = $(VENV)/bin
# -qq prints errors only: some package indexes cause hundreds of warnings.
PIP = $(BIN)/python -m pip install -qq

# With a GPU: the exact release (CUDA). Without: any build of this release, so that pip can choose a CPU build if available.
TORCH ?= torch$(if $(shell command -v nvidia-smi),===,==)$(shell sed -n 's/^torch==//p' constraints.txt)

# Set to empty to install the newest releases.
CONSTRAINTS ?= --constraint constraints.txt

.PHONY: demo test quick test-long test-versions test-lowest test-newest fuzz torture check install tensorboard browser strace bench

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) "$(TORCH)"
	$(PIP) $(CONSTRAINTS) --editable ".[dev]"
	touch $@

# Resume an interrupted run; a finished run is not trained again.
define train
	if [ -e runs/$(1)/checkpoints/last ]; then $(BIN)/python train.py resume=runs/$(1); \
	else $(BIN)/python train.py +experiment=$(1) name=$(1); fi
endef

# demo_gpt comes last: the Attention tab opens with the run that recorded last.
demo: install
	@$(call train,demo_enja)
	@$(call train,demo_gpt)
	@echo
	@$(BIN)/python export.py run=runs/demo_gpt,runs/demo_enja format=page to=runs/demo.html overwrite=true
	@$(BIN)/python demo.py runs/demo_gpt runs/demo_enja

# One thread per worker: more threads than cores slow all of them down. Idle workers take tests from busy ones.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal

test: install
	$(PYTEST) -m "not long"

# The longest tests: training in several processes, compiled training of translators, kills, the dry run of the GPU benchmark.
test-long: install
	$(PYTEST) -m long

# Tests without a browser, subprocesses or training for more than a few steps: under a minute on two cores.
quick: install
	$(PYTEST) -m "not slow and not browser and not gpu"

# What the version of a dependency can break: gradients, compilation, checkpoints, resume, both +debug programs, formats of other
# programs; and for each of the other dependencies the tests that use it most.
VERSION_TESTS := tests/training/test_compiled_gradients.py tests/training/test_compiled_update.py::test_the_compiled_update_is_the_update \
  tests/training/hardware/test_compilation.py tests/training/test_loss.py tests/model/test_fast_kernels.py \
  tests/training/checkpoints tests/test_resume.py tests/test_experiments.py::test_every_debug_preset_trains \
  $(addprefix tests/interop/,huggingface pretrained gguf ctranslate) \
  tests/attention_maps/draw tests/attention_maps/tensorboard/test_routes.py tests/data/sources/test_remote_sources.py

# The versions that pyproject.toml promises: its lower bounds and the newest releases. Each installation takes 6 GB and is kept; delete
# .venv-newest to get the releases of today.
test-versions: test-lowest test-newest

# Some of the lowest versions have no wheels for a later Python.
PYTHON_LOWEST ?= $(shell python3.11 -c 'print("python3.11")' 2> /dev/null || echo $(PYTHON))
CHECK_LOWEST = import sys; sys.exit(sys.version_info[:2] != (3, 11) and "error: make test-lowest needs Python 3.11: set PYTHON_LOWEST")

test-lowest .venv-lowest/installed: VENV := .venv-lowest
test-newest .venv-newest/installed: VENV := .venv-newest
.venv-lowest/installed: CREATE = $(PYTHON_LOWEST) -c '$(CHECK_LOWEST)' && $(PYTHON_LOWEST)
.venv-newest/installed: CREATE = $(PYTHON)
.venv-lowest/installed: VERSIONS = --constraint $(VENV)/bounds.txt

test-lowest test-newest: test-%: .venv-%/installed
	@TIMEFORMAT="$@: %0lR"; time $(PYTEST) -m "not gpu" $(VERSION_TESTS)

# Every bound becomes an exact version: pip rejects one that is not a release, or that contradicts another, and says why.
.venv-lowest/installed .venv-newest/installed: pyproject.toml
	@$(CREATE) -m venv --clear $(VENV)
	sed -n 's/^    "\([A-Za-z0-9_-]*\)>=\([0-9.]*\)[",].*/\1==\2/p' pyproject.toml > $(VENV)/bounds.txt
	@TIMEFORMAT="installation of $(VENV): %0lR"; time $(BIN)/python -m pip install $(VERSIONS) --editable ".[export]" pytest pytest-xdist \
	  > $(VENV)/pip.log 2>&1 || { tail -n 20 $(VENV)/pip.log >&2; exit 1; }
	@sed -n '/^Successfully installed/p' $(VENV)/pip.log
	touch $@

# 10,000 generated inputs, from command lines to damaged checkpoints; about half an hour on two cores.
fuzz: install
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.robustness.fuzz cases=$(or $(CASES),10000) seed=$(or $(SEED),1)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

tensorboard: install
	$(BIN)/tensorboard --logdir runs

# Install Chromium and Firefox for the tests of the Attention tab (Debian packages, as root); without a browser its tests are skipped.
browser:
	@command -v chromium > /dev/null && command -v chromedriver > /dev/null && { command -v firefox-esr || command -v firefox; } > /dev/null \
	  && fc-list :lang=ja | grep -q . || { apt-get update -qq && \
	  apt-get install -y -qq --no-install-recommends chromium chromium-driver firefox-esr fontconfig fonts-noto-cjk; }

# Kill training runs, resume them and compare their ends with an undisturbed run: about half an hour on two cores.
# make torture kills=10 task=gpt seed=2
torture: install
	$(BIN)/python -m tests.robustness.torture $(foreach key,kills seed task folder,$(if $($(key)),$(key)=$($(key))))

# Install strace for the tests in tests/robustness/crash_states (Debian package, as root); without it these tests are skipped.
strace:
	@command -v strace > /dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends strace; }

# Compare with the peers: more than an hour on two cores, with nothing else running.
# make bench NANOGPT=checkout TEXT=input.txt PAIRS=folder RUN=run folder of a trained translator
bench: install
	@: $${TEXT:?set it to a text file: make bench TEXT=input.txt PAIRS=folder} $${PAIRS:?set it to a folder with train.en and train.ja}
	$(PIP) $(CONSTRAINTS) --editable ".[bench]"
	$(BIN)/python -m benchmarks train_gpt shape=cpu data=$(TEXT) nanogpt=$(NANOGPT)
	$(BIN)/python -m benchmarks train_gpt shape=baby data=$(TEXT) nanogpt=$(NANOGPT)
	$(BIN)/python -m benchmarks train_translator data=$(PAIRS)
	for model in 0.8M 10.7M 124M; do for batch in 1 32; do \
	  $(BIN)/python -m benchmarks sample model=$$model batch=$$batch || exit 1; done; done
	test -z "$(RUN)" || $(BIN)/python -m benchmarks beam run=$(RUN) sentences=$(PAIRS)/test.en
	$(BIN)/python -m benchmarks table
