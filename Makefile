# make book   the static book, in _build/html     make test   everything that can be checked
# make lab    the notebooks in JupyterLab         make check  the quick part of the tests, in seconds
# make bench  the measured figures                make clean  removes what was built, keeps .venv
# Each does its own set-up in .venv. Nothing else is needed than Python 3.11 or newer.

PYTHON ?= python3
PY := .venv/bin/python
# The stamp is named after what it depends on: an unchanged set-up costs nothing, a changed one
# (or a moved checkout) is noticed whatever the dates of the files say.
SETUP := .venv/setup-$(shell { pwd; cat requirements.txt pyproject.toml; } | cksum | tr -s ' \t' '--')

.PHONY: book test check lab bench live setup clean

book: $(SETUP)
	$(PY) book/build.py

test: $(SETUP) lint
	$(PY) -m pytest -q

check: $(SETUP) lint
	$(PY) -m pytest -q -m "not slow and not browser" memmodel tests

.PHONY: lint
lint: $(SETUP)
	$(PY) -m ruff check -q .
	$(PY) -m ruff format -q --check .
	$(PY) -m mypy --no-error-summary

lab: $(SETUP)
	$(PY) -m jupyterlab book

bench: $(SETUP)
	@for bench in tests/bench_*.py; do echo "== $$bench"; $(PY) $$bench || exit 1; done

# The runtime of the live figures alone (make book does this too): from npm, once for a lock file.
live: $(SETUP)
	$(PY) book/_live/build.py

setup: $(SETUP)

$(SETUP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed ($(PYTHON) is older or missing): make PYTHON=python3.12"; exit 1; }
	@[ "$$(cat .venv/place 2>/dev/null)" = "$$(pwd)" ] || rm -rf .venv
	@[ -x $(PY) ] || $(PYTHON) -m venv .venv \
		|| { rm -rf .venv; echo "Python's venv module is missing (Debian, Ubuntu: apt-get install python3-venv)"; exit 1; }
	@pwd > .venv/place
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@rm -f .venv/setup-* && touch $@

clean:
	rm -rf _build build .pytest_cache .mypy_cache .ruff_cache .hypothesis
