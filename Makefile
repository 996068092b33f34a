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
ENVIRONMENT := $(PYTHON) tools/environment.py
# The tests start many processes; without bytecode files each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all test-gpu lint types check docs format bench clean
help:
	@echo "make demo      run the main job and write a report to look at; WORKERS=2 or RAY=local"
	@echo "make test      run the tests: mathematics, identities, resuming, the command line"
	@echo "make test-all  run all other tests: torch, Warp, a browser, films, soak, documentation"
	@echo "make test-gpu  the part of test-all with MuJoCo Warp (no GPU needed)"
	@echo "make check     lint, types and both sets of tests"
	@echo "make docs      build the documentation as a site: docs/_build/html/index.html"
	@echo "make bench     the benchmark tables (installs the peers it compares with)"
	@echo "make format    format the code"
	@echo "make clean     remove what the above made"

# One environment serves demo, test and test-all; each adds the packages that it needs.
$(VENV)/demo: pyproject.toml constraints.txt
	@$(ENVIRONMENT) $(VENV) demo --extras report$(if $(RAY),$(COMMA)ray)

$(VENV)/test: pyproject.toml constraints.txt
	@$(ENVIRONMENT) $(VENV) test --extras test

$(VENV)/test-all: pyproject.toml constraints.txt
	@$(ENVIRONMENT) $(VENV) test-all --extras test-all,lint --pip-first torch

# MuJoCo Warp needs a newer MuJoCo than Meta-World can use. Its kernels are compiled once, and kept.
$(GPU)/test-gpu: pyproject.toml constraints-gpu.txt
	@$(ENVIRONMENT) $(GPU) test-gpu --extras test-gpu --constraints constraints-gpu.txt

demo: $(VENV)/demo
	@echo "Running the studies. The first time, this begins with compiling kernels: 10 to 15 s."
	$(strip $(BIN)/gensmooth reproduce $(STUDIES) --profile quick --folder $(OUT) \
		$(if $(WORKERS),--workers $(WORKERS)) $(if $(RAY),--ray $(RAY)))

# A worker of xdist that is replaced after a crash waits for ever; so a crash ends the tests.
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder \
	--max-worker-restart=0

test: $(VENV)/test
	$(PYTEST) --core

test-all: $(VENV)/test-all test-gpu
	WARP_CACHE_PATH=$(CURDIR)/$(GPU)/kernels $(PYTEST) --extended

test-gpu: $(GPU)/test-gpu
	WARP_CACHE_PATH=$(CURDIR)/$(GPU)/kernels $(GPU)/bin/python -m pytest tests/rl/test_warp.py \
		tests/physics/test_fused.py tests/physics/test_mechanics.py

lint: $(VENV)/test-all
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test-all
	$(BIN)/pyright --project .ci/pyright-torch.json
	$(BIN)/pyright

check: lint types test test-all

docs: $(VENV)/test-all
	$(BIN)/python -m sphinx -q -W --keep-going -j 2 -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

format: $(VENV)/test-all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Peers are optional: what cannot be installed is shown as missing in the table.
$(PEERS)/installed: pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --editable '.[all]'
	-$(PEERS)/bin/python -m pip install --quiet evosax evotorch torch==2.13.0 nevergrad pypop7 cma envpool
	-$(PEERS)/bin/python -m pip install --quiet cmaes coco-experiment nlopt
	@touch $@

bench: $(PEERS)/installed
	-$(PEERS)/bin/python -m benchmarks.core --out docs/results/benchmarks-core.json
	-$(PEERS)/bin/python -m benchmarks.methods --out docs/results/benchmarks-methods.json
	$(PEERS)/bin/python -m benchmarks.regression --out docs/results/benchmarks-regression.json
	$(PEERS)/bin/python -m benchmarks.errors --out docs/results/benchmarks-errors.json
	$(PEERS)/bin/python -m benchmarks.nevergrad_loop --out docs/results/benchmarks-nevergrad.json
	$(PEERS)/bin/python -m benchmarks.page
	-$(PEERS)/bin/python -m benchmarks.evaluators --out docs/results/benchmarks-evaluators.json
	$(PEERS)/bin/python -m benchmarks.scale
	-$(PEERS)/bin/python -m benchmarks.checkpoint
	-$(PEERS)/bin/python -m benchmarks.rl --out docs/results/benchmarks-rl.json
	-$(PEERS)/bin/python -m benchmarks.rl_metaworld --out docs/results/benchmarks-rl-metaworld.json
	-$(PEERS)/bin/python -m benchmarks.coco --dimensions 5,10,20,40 --budget-multipliers 10,30,100,300,1000,3000 $(COCO)
	-$(PEERS)/bin/python -m benchmarks.coco --noise relative:0.1,relative:0.5,additive:1 $(COCO)
	-$(PEERS)/bin/python -m benchmarks.coco --suite bbob-largescale --dimensions 80,160,320 \
		--budget-multipliers 10,30,100 $(COCO)
	-$(PEERS)/bin/python -m benchmarks.coco_page

clean:
	rm -rf $(VENV) .venv-peers $(GPU) demo docs/_build docs/api docs/gallery .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
