# Everything runs in a virtual environment in .venv, made on first use. `make help` lists the targets: what
# follows ## on a target's line is its line of the list.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DATA   ?= corpora
OUT    := build-demo

.PHONY: help demo test pythons lint wheel lowest docs models bench optimizers parser second-order calibration server pipeline doors shards fuzz clean

help:  ## list the targets (the default)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

LANGUAGES := $(patsubst %,./%,$(wildcard models/*))  # packages of models beside the English ones

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]' $(addprefix -e ,$(LANGUAGES))
	touch $@

# Analyse a text with the shipped models and draw it; train taggers and a parser on the embedded
# corpus, tag, parse, score and look inside.
demo: $(VENV)/.installed  ## analyse a text, draw it, train on the embedded corpus, score
	mkdir -p $(OUT)
	@echo "== the shipped English pipeline: $(CURDIR)/$(OUT)/letter.html will hold the picture =="
	$(BIN)/turbotag predict en data/demo/letter.txt --marginals --draw $(OUT)/letter.html \
	    -o $(OUT)/letter.conllu
	$(BIN)/turbotag draw $(OUT)/letter.conllu --ascii --sentences 2-3
	@echo; echo "== training on the embedded corpus: parts of speech, entities =="
	$(BIN)/turbotag train --task pos --train data/demo/train.conllu --dev data/demo/dev.conllu \
	    -o $(OUT)/pos.model
	$(BIN)/turbotag train --task ner --train data/demo/train.iob2 --dev data/demo/dev.iob2 \
	    -o $(OUT)/ner.model
	$(BIN)/turbotag predict $(OUT)/ner.model data/demo/test.iob2 -o $(OUT)/test.iob2
	@echo; echo "== entities in data/demo/test.iob2: word, tag, probability of tag and of entity =="
	$(BIN)/turbotag predict $(OUT)/ner.model data/demo/test.iob2 --marginals | tail -n 24
	@echo; echo "== eval: entities (synthetic data: the scores say nothing about real text) =="
	$(BIN)/turbotag eval data/demo/test.iob2 $(OUT)/test.iob2
	@echo; echo "== eval: parts of speech =="
	$(BIN)/turbotag eval --model $(OUT)/pos.model data/demo/test.conllu
	@echo; echo "== a parser: train, parse with probabilities, score =="
	$(BIN)/turbotag train --task parse --train data/demo/train.conllu --dev data/demo/dev.conllu \
	    -o $(OUT)/parse.model
	$(BIN)/turbotag predict $(OUT)/parse.model data/demo/test.conllu -o $(OUT)/test.conllu --marginals
	head -n 18 $(OUT)/test.conllu
	$(BIN)/turbotag eval --task parse data/demo/test.conllu $(OUT)/test.conllu
	@echo; echo "== a whole pipeline from the embedded treebank: raw text in, all columns out =="
	$(BIN)/turbotag train --task pipeline --train data/demo/train.conllu --dev data/demo/dev.conllu \
	    --jackknife 2 --supertags 0 -q -o $(OUT)/pipeline.model
	echo "Ada Castell found the old lamp. It waits." | $(BIN)/turbotag predict $(OUT)/pipeline.model
	@echo; echo "== inspect: what the entity model looks at =="
	$(BIN)/turbotag inspect $(OUT)/ner.model --label B-PER

test: $(VENV)/.installed  ## run the tests; a part of them with ARGS="tests/corpus -k iob"
	$(BIN)/python -m pytest $(ARGS)

# Each in an environment of its own below dist/; ARGS as for `make test`.
pythons: $(VENV)/.installed  ## run the tests on every Python from 3.10 to 3.13 that is installed
	$(BIN)/python scripts/release/pythons.py $(ARGS)

lint: $(VENV)/.installed  ## ruff (lint and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Build the wheel, install it in an empty environment, and run the tests that users' runs are like.
wheel: $(VENV)/.installed  ## build the wheel and test it in an empty environment
	rm -rf build dist && $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(PYTHON) -m venv dist/env
	dist/env/bin/python -m pip install --quiet dist/*.whl $(LANGUAGES) pytest hypothesis
	rm -rf dist/check && mkdir dist/check && cp -r tests data dist/check
	cd dist/check && ../env/bin/python -m pytest -q tests/cli tests/test_api.py tests/models/test_pipeline.py
	ls -l dist/*.whl

# The tests with the oldest versions of all dependencies that pyproject.toml allows; `make test` has
# the newest.
lowest: $(VENV)/.installed  ## run the tests with the oldest dependencies that are allowed
	rm -rf build dist/lowest && $(PYTHON) -m venv dist/lowest
	dist/lowest/bin/python -m pip install --quiet $$($(BIN)/python scripts/release/lowest.py pins) \
	    pytest hypothesis
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist/lowest/wheel .
	dist/lowest/bin/python -m pip install --quiet --no-deps dist/lowest/wheel/*.whl $(LANGUAGES)
	mkdir dist/lowest/check && cp -r tests data scripts dist/lowest/check
	dist/lowest/bin/python scripts/release/lowest.py test --folder dist/lowest/check

# The site, in dist/site: the pages of docs/, which can be read as plain files too, and the Python reference.
docs: $(VENV)/.installed  ## the Python reference from the docstrings, and all pages as a site: dist/site
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	$(BIN)/python scripts/release/reference.py
	$(BIN)/mkdocs build --strict

# Train the shipped models: turbotag/pretrained, models/.
models: $(VENV)/.installed  ## train the shipped models (under an hour on two cores)
	$(BIN)/python scripts/release/make_models.py --data "$(DATA)"

# Race python-crfsuite and ufal.udpipe, measure scaling and starting (about three quarters of an hour,
# best on an idle machine): docs/benchmarks.md, its plots and CSV files.
bench: $(VENV)/.installed  ## race python-crfsuite and UDPipe: docs/benchmarks.md (5 hours, 90 minutes with UDPipe's models kept)
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python scripts/bench races crfsuite udpipe treebanks scaling start page --data "$(DATA)"

# Repeat the papers' experiments (an hour and a half; FULL=1: the papers' sizes, a day), each also
# alone, as in `make repro-egr`: docs/results.md, its plots and CSV files.
EXPERIMENTS := dca-ner dca-parse losses eg egr rates sdca open-questions halfspaces noise elastic
REPRO = $(BIN)/python scripts/repro --data "$(DATA)" --size $(if $(FULL),full,default)
.PHONY: repro $(EXPERIMENTS:%=repro-%)
repro: $(VENV)/.installed  ## repeat the papers' experiments, or one, as in repro-egr: docs/results.md (90 minutes)
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(REPRO) $(EXPERIMENTS) page
$(EXPERIMENTS:%=repro-%): repro-%: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(REPRO) $* page

# Compare all optimizers (about an hour): docs/optimizers.md and its CSV files.
optimizers: $(VENV)/.installed  ## compare all optimizers: docs/optimizers.md (an hour)
	$(BIN)/python scripts/bench optimizers table hinge page --data "$(DATA)"

# Measure the parser on EWT, Slovene and Gothic (about half an hour): docs/parser.md.
parser: $(VENV)/.installed  ## measure the parser: docs/parser.md (half an hour)
	$(BIN)/python scripts/bench parser quarter full supertags decoders features sdca agree gothic length page --data "$(DATA)"

# Measure second-order parsing (about half an hour): docs/second_order.md.
second-order: $(VENV)/.installed  ## measure second-order parsing: docs/second_order.md (half an hour)
	$(BIN)/python scripts/bench second_order tight surrogate race race_full page --data "$(DATA)"

# Measure probabilities: docs/calibration.md.
calibration: $(VENV)/.installed  ## measure probabilities: docs/calibration.md (a quarter of an hour)
	$(BIN)/python scripts/bench calibration shipped genres second_model page --data "$(DATA)"

# Measure the server: docs/server.md.
server: $(VENV)/.installed  ## measure the server with 50 clients: docs/server.md (five minutes)
	$(BIN)/python scripts/bench server load hostile restarts page

# Measure the shipped models (a quarter of an hour): docs/models.md.
pipeline: $(VENV)/.installed  ## measure the shipped models: docs/models.md (a quarter of an hour)
	$(BIN)/python scripts/bench pipeline files scores speed page --data "$(DATA)"

# Race sklearn-crfsuite, and documents one by one against many at once: docs/doors.md.
doors: $(VENV)/.installed  ## race sklearn-crfsuite, measure documents: docs/doors.md (five minutes)
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python scripts/bench doors crf documents page --data "$(DATA)"

# Shards and workers of Ray: docs/shards.md.
shards: $(VENV)/.installed  ## measure dual ascent on shards, and workers of Ray: docs/shards.md (half an hour)
	$(BIN)/python scripts/bench shards epochs clusters kills files page --data "$(DATA)"

# Attack it: fuzzing, hostile models, faults, extreme numbers, load: docs/reliability.md.
.PHONY: torture
torture: $(VENV)/.installed  ## attack it with hostile files, faults and load: docs/reliability.md
	$(BIN)/python scripts/torture fuzz models faults extremes load supply page

# A million executions of every fuzzing target (about two hours): docs/reliability/fuzz-million.csv. It needs
# atheris, which has wheels for Linux; `make torture` has a few minutes of the same.
fuzz: $(VENV)/.installed  ## a million executions of every fuzzing target (two hours)
	$(BIN)/python -m pip install --quiet atheris
	$(BIN)/python scripts/torture/fuzz.py

# numba's cache does not see that a kernel in another file changed: clean after editing kernels.
clean:  ## remove what was built, and the compiled kernels
	rm -rf $(OUT) build dist *.egg-info
	find turbotag tests -name '*.nbi' -delete -o -name '*.nbc' -delete
