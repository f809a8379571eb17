# Everything runs in a virtual environment in .venv, made on first use.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DATA   ?= ../shared/data
OUT    := build-demo

.PHONY: demo test lint wheel models bench optimizers parser second-order pipeline clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@

# Analyse a text with the shipped models and draw it; train taggers and a parser on the embedded
# corpus, tag, parse, score and look inside.
demo: $(VENV)/.installed
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
	@echo; echo "== inspect: what the entity model looks at =="
	$(BIN)/turbotag inspect $(OUT)/ner.model --label B-PER

test: $(VENV)/.installed
	$(BIN)/python -m pytest

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Build the wheel, install it in an empty environment, and run the tests that users' runs are like.
wheel: $(VENV)/.installed
	rm -rf build dist && $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(PYTHON) -m venv dist/env
	dist/env/bin/python -m pip install --quiet dist/*.whl pytest hypothesis conllu
	rm -rf dist/check && mkdir dist/check && cp -r tests data dist/check
	cd dist/check && ../env/bin/python -m pytest -q tests/cli tests/test_api.py tests/models/test_pipeline.py
	ls -l dist/*.whl

# Train the shipped models (about ten minutes): turbotag/pretrained.
models: $(VENV)/.installed
	$(BIN)/python scripts/make_models.py --data $(DATA)

# Race python-crfsuite on CoNLL-2000 (DATA names the folder with conll2000/).
bench: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python scripts/bench_tagger.py --train $(DATA)/conll2000/train.txt --test $(DATA)/conll2000/test.txt

# Compare all optimizers (about an hour): docs/optimizers.md, its plots and CSV files.
optimizers: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	$(BIN)/python scripts/compare_optimizers.py table hinge curves egr estimate page --data $(DATA)

# Measure the parser on EWT, Slovene and Gothic (about half an hour): docs/parser.md.
parser: $(VENV)/.installed
	$(BIN)/python scripts/bench_parser.py quarter full features sdca agree losses online gothic length \
	    page --data $(DATA)

# Measure second-order parsing (about two hours): docs/second_order.md.
second-order: $(VENV)/.installed
	$(BIN)/python scripts/bench_second_order.py tight slovene gothic quarter full surrogate race race_full \
	    page --data $(DATA)

# Measure the shipped models (a quarter of an hour): docs/models.md.
pipeline: $(VENV)/.installed
	$(BIN)/python scripts/bench_pipeline.py files scores speed sizes page --data $(DATA)

# numba's cache does not see that a kernel in another file changed: clean after editing kernels.
clean:
	rm -rf $(OUT) build dist *.egg-info
	find turbotag tests -name '*.nbi' -delete -o -name '*.nbc' -delete
