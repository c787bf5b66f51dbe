# Every target sets up what it needs; `make demo` and `make test` are all a newcomer must know.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: install demo toy smoke test check kernels node clients ray browser replicas bench pins clean

install: $(STAMP)

$(STAMP): pyproject.toml pins.txt
	$(PYTHON) -c 'import sys; sys.exit("Termweave needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -c pins.txt 'torch'
	$(BIN)/pip install --quiet -c pins.txt -e '.[dev]'
	touch $@

# The model that comes with the package, without and with a glossary.
demo: install
	$(BIN)/termweave demo

# The whole path on a small corpus of our own: prepare, train both stages, compare.
toy: install
	$(BIN)/termweave toy runs/toy

# Every table of the paper on a scale of minutes: the toy corpus, tiny models.
smoke: install
	$(BIN)/termweave experiment run experiments/de-en.toml --smoke --device cpu

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Files are shared out among processes, never the tests of one file: they share what was trained for them.
test: check node
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadscope

# The GPU's kernels, interpreted on the CPU, and compiled for a GPU. Not part of `make test`: Triton takes a gigabyte of disk.
kernels: install
	$(BIN)/pip install --quiet triton
	TRITON_INTERPRET=1 PYTHONPATH=tests $(BIN)/python -m pytest -p kernel_compilation \
		tests/model/test_attention_kernels.py tests/model/test_copy_kernels.py tests/model/test_encoder_kernels.py \
		tests/decoding/test_bank_kernels.py tests/decoding/test_selection_kernels.py \
		tests/decoding/test_step_kernels.py
	$(BIN)/python tests/kernel_compilation.py

# DeepL's client for Node, where there is npm: then the server is tested with it too.
node:
	! command -v npm >/dev/null || test -d build/node/node_modules/deepl-node \
		|| npm install --silent --no-fund --no-audit --prefix build/node deepl-node \
		|| echo 'deepl-node could not be installed: its tests are left out'

clients: install node
	$(BIN)/python -m pytest tests/server/test_node_client.py

# A cluster of Ray on this machine. Not part of `make test`: Ray takes half a gigabyte of disk.
ray: install
	$(BIN)/pip install --quiet -c pins.txt -e '.[ray]'
	$(BIN)/python -m pytest tests/shards/test_ray_engine.py

# The pages in a real browser: Playwright drives Debian's Chromium, which is installed where it is missing. With npm there is
# axe-core too, which knows the rules of accessibility.
browser: install
	command -v chromium || command -v chromium-browser || sudo apt-get install --yes chromium
	$(BIN)/pip install --quiet playwright
	! command -v npm || npm install --silent --no-fund --no-audit --prefix build/node axe-core
	$(BIN)/python -m pytest tests/server/page

# Two servers behind nginx on one PostgreSQL, with the model of `make toy`; nginx is used where it is installed.
replicas: toy
	$(BIN)/python benchmarks/replicas.py

# What can be measured anywhere; `benchmarks/*.py --help` says how to measure the rest, on a GPU and on real text.
bench: install
	$(BIN)/python benchmarks/train.py --tiny --device cpu --no-compile --tokens 2048 --rounds 3 --steps 5
	$(BIN)/python benchmarks/decode.py --tiny

# Everything as new as it comes, but torch: then run the tests, and commit what has changed.
pins:
	rm -rf build/pins && $(PYTHON) -m venv build/pins
	grep '^torch==' pins.txt > build/torch.txt
	build/pins/bin/pip install --quiet -c build/torch.txt torch
	build/pins/bin/pip install --quiet -c build/torch.txt '.[dev]'
	(grep '^#' pins.txt; build/pins/bin/pip freeze --exclude termweave | sed 's/+cpu$$//') > build/pins.txt
	mv build/pins.txt pins.txt

clean:
	rm -rf $(VENV) runs results/*-smoke build .mypy_cache .ruff_cache .pytest_cache
