# `make demo` and `make test` do all of their own set-up: only Python 3.11+ and make are needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PEERS ?= .venv-peers
GPU ?= .venv-gpu
JOBS ?= 2
OUT ?= demo
STUDIES ?= controller,linreg,dfo,timing
COMMA := ,
COCO := --workers 2 --out docs/results/coco.json
# pip, which is everywhere; or UV=uv, which takes a tenth of the time but knows nothing of pip's settings.
INSTALL = $(if $(UV),$(UV) pip install --python $(1)/bin/python,$(1)/bin/python -m pip install) --quiet

.PHONY: help demo test test-gpu lint types check docs format bench clean
help:
	@echo "make demo    run the main job and write a report to look at; WORKERS=2 or RAY=local"
	@echo "make test    run the tests"
	@echo "make test-gpu  the tests of training on a GPU, in an environment of their own (no GPU needed)"
	@echo "make check   tests, lint and types, as CI does"
	@echo "make docs    build the documentation as a site: docs/_build/html/index.html"
	@echo "make bench   the benchmark tables (installs the peers it compares with)"
	@echo "make format  format the code"
	@echo "make clean   remove what the above made"

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "gensmooth needs Python 3.11 or newer; $(PYTHON) is `$(PYTHON) --version`. Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(call INSTALL,$(VENV)) --constraint constraints.txt --editable '.[all,test,lint,docs$(EXTRAS)]'
	@touch $@

# The demo needs a tenth of what the tests need; where all of it is there, so is this.
$(VENV)/demo: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "gensmooth needs Python 3.11 or newer; $(PYTHON) is `$(PYTHON) --version`. Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -f $(VENV)/installed || $(BIN)/python -m pip install --quiet --constraint constraints.txt \
		--editable '.[report$(if $(RAY),$(COMMA)ray)]'
	@touch $@

demo: $(VENV)/demo
	$(BIN)/gensmooth reproduce $(STUDIES) --profile quick --out $(OUT) \
		$(if $(WORKERS),--workers $(WORKERS)) $(if $(RAY),--ray $(RAY))

test: $(VENV)/installed
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

# MuJoCo Warp needs a newer MuJoCo than Meta-World can use. Its kernels are compiled once, and kept.
$(GPU)/installed: pyproject.toml constraints-gpu.txt
	$(PYTHON) -m venv $(GPU)
	$(call INSTALL,$(GPU)) --constraint constraints-gpu.txt --editable '.[test-gpu]'
	@touch $@

test-gpu: $(GPU)/installed
	WARP_CACHE_PATH=$(CURDIR)/$(GPU)/kernels $(GPU)/bin/python -m pytest tests/test_warp.py \
		tests/test_fused.py tests/test_mechanics.py

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed
	$(BIN)/pyright

check: lint types test

docs: $(VENV)/installed
	$(BIN)/python -m sphinx -q -W --keep-going -j 2 -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

format: $(VENV)/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Peers are optional: what cannot be installed is shown as missing in the table.
$(PEERS)/installed: pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --editable '.[all]'
	-$(PEERS)/bin/python -m pip install --quiet evosax evotorch torch==2.13.0 nevergrad pypop7 cma envpool
	-$(PEERS)/bin/python -m pip install --quiet cmaes coco-experiment
	@touch $@

bench: $(PEERS)/installed
	-$(PEERS)/bin/python -m benchmarks.core --out docs/results/benchmarks-core.json
	-$(PEERS)/bin/python -m benchmarks.methods --out docs/results/benchmarks-methods.json
	$(PEERS)/bin/python -m benchmarks.page
	$(PEERS)/bin/python -m benchmarks.regression
	-$(PEERS)/bin/python -m benchmarks.evaluators --out docs/results/benchmarks-evaluators.json
	$(PEERS)/bin/python -m benchmarks.scale
	-$(PEERS)/bin/python -m benchmarks.checkpoint
	-$(PEERS)/bin/python -m benchmarks.rl --out docs/results/benchmarks-rl.json
	-$(PEERS)/bin/python -m benchmarks.rl_metaworld --out docs/results/benchmarks-rl-metaworld.json
	-$(PEERS)/bin/python -m benchmarks.coco --dimensions 5,10,20,40 $(COCO)
	-$(PEERS)/bin/python -m benchmarks.coco --noise relative:0.1,relative:0.5,additive:1 $(COCO)
	-$(PEERS)/bin/python -m benchmarks.coco --suite bbob-largescale --dimensions 80,160,320 \
		--budget-multipliers 10,30,100 $(COCO)
	-$(PEERS)/bin/python -m benchmarks.coco_page

clean:
	rm -rf $(VENV) .venv-peers $(GPU) demo docs/_build docs/api docs/gallery .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
