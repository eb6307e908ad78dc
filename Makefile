# make demo | test | check | install | tensorboard: each creates .venv and installs what it needs by itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# With a GPU the exact release (CUDA); without one any build of it, so that pip may choose a CPU build where it knows one.
TORCH := torch$(if $(shell command -v nvidia-smi),===,==)$(shell sed -n 's/^torch==//p' constraints.txt)

.PHONY: demo test check install tensorboard

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

# Goes on where it was interrupted; a finished run is not trained again.
define train
	if [ -d runs/$(1) ]; then $(BIN)/python train.py resume=runs/$(1); \
	else $(BIN)/python train.py +experiment=$(1) name=$(1); fi
endef

demo: install
	@$(call train,demo_gpt)
	@$(call train,demo_enja)
	@echo; echo "Two stories, written by runs/demo_gpt:"; echo
	@$(BIN)/python generate.py run=runs/demo_gpt prompt="" samples=2 temperature=0.7 seed=1
	@echo; echo "Translations, by runs/demo_enja:"; echo
	@$(BIN)/python generate.py run=runs/demo_enja < data/primer/demo.txt | paste -d '\n' data/primer/demo.txt - | sed '0~2G'
	@echo "See them learn and attend: make tensorboard"

test: install
	$(BIN)/python -m pytest

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

tensorboard: install
	$(BIN)/tensorboard --logdir runs
