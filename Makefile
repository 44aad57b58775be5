# The front door. Meson does the building, out of tree; every target below says what it does in `make help`.
# `make demo` and `make test` need nothing but make and a checkout: scripts/bootstrap.sh brings what is missing.

BUILD ?= build
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 30
CHAOS_RUNS ?= 459 # a fault of one run in 100 shows with 99 %
CHAOS_SECONDS ?=
WHEEL_DIR ?= dist
WHEEL_TARGET ?= x86_64-linux-gnu.2.17 # CPU, libc and its oldest version: docs/decisions/0012-a-wheel-for-old-systems.md
WHEEL_TOOLS ?= .tools/wheel
WHEEL_MAX_MB ?= 4
DEMO ?= examples/log_digest.py

MESON = $(shell scripts/bootstrap.sh which-meson)
VENV_PYTHON = .venv/bin/python
C_FILES = $(shell find core tests examples -name '*.[ch]' | sort)

# Address and undefined-behaviour sanitizers go together; thread sanitizer excludes both. b_lundef is off because a
# sanitized library finds the sanitizer's symbols in the program that loads it.
ASAN_FLAGS = -Dbuildtype=debug -Db_sanitize=address,undefined -Db_lundef=false
TSAN_FLAGS = -Dbuildtype=debugoptimized -Db_sanitize=thread -Db_lundef=false
FUZZ_FLAGS = -Dbuildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false -Dlibfuzzer=true
SERVER_E2E = tests/e2e/test_serve.py tests/e2e/test_serve_hostile.py
# Builds and shows warnings and errors only.
ninja = ninja -C $(1) >$(1)/ninja.log 2>&1; status=$$?; \
	grep -v -e '^\[' -e '^ninja: Entering' -e '^ninja: no work' $(1)/ninja.log; exit $$status

# One file at a time: clang-tidy 14 takes every va_list but the first file's for uninitialised.
TIDY = clang-tidy -p $(BUILD)/tidy --quiet --warnings-as-errors='*' --extra-arg=-Wno-unknown-warning-option

# A finding must end the program: without this, undefined behaviour prints a line and the test passes.
SAN_ENV = UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ASAN_OPTIONS=detect_stack_use_after_return=1

.PHONY: all demo test check-unit check-e2e check-chaos check-includes check-sigsafe lint format asan tsan fuzz chaos chaos-inject wild sentences pictures bench wheel wheel-here wheel-check install clean help

all: $(BUILD)/build.ninja ## build the program, the agent and the unit tests
	@$(call ninja,$(BUILD))

$(BUILD)/build.ninja:
	@$(MESON) setup $(BUILD) >$(BUILD).log 2>&1 || { tail -n 20 $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log

demo: ## install what is missing, build, profile an example and print its report
	@scripts/bootstrap.sh demo
	@$(MAKE) --no-print-directory all
	$(BUILD)/fathom run $(DEMO)

# Every stage runs even when an earlier one failed, so that one run tells everything.
test: ## install what is missing, build, run every check and test
	@scripts/bootstrap.sh build
	@scripts/bootstrap.sh test & $(MAKE) --no-print-directory all; status=$$?; wait $$! || status=1; exit $$status
	@failed=; for stage in check-includes check-sigsafe check-unit check-chaos check-e2e; do \
		$(MAKE) --no-print-directory $$stage || failed="$$failed $$stage"; done; \
	$(VENV_PYTHON) scripts/count_tests.py $(BUILD) || failed="$${failed:- count}"; \
	if [ -n "$$failed" ]; then echo "make test: failed:$$failed"; exit 1; fi

check-unit: all ## unit tests in C, and every fuzz target over its corpus
	@rm -f $(BUILD)/meson-logs/testlog.json
	@$(MESON) test -C $(BUILD) --no-rebuild --print-errorlogs

check-e2e: all ## tests of the built program, with pytest
	@scripts/e2e.sh $(VENV_PYTHON) $(BUILD) $(PYTEST_ARGS)

check-chaos: all ## hostile programs, bare and profiled: each once or twice, on other Pythons and in other modes each time
	@rm -f $(BUILD)/chaos.json
	@$(VENV_PYTHON) tests/chaos/run.py --short --scale 0.5 --fathom $(BUILD)/fathom --folder $(BUILD)/chaos --result $(BUILD)/chaos.json $(CHAOS_ARGS)

check-includes: ## no room includes what it may not
	@python3 scripts/check_includes.py

check-sigsafe: all ## signal-time code calls nothing that is not listed with a reason
	@scripts/check_sigsafe.py $(BUILD)

lint: all ## clang-format, clang-tidy, ruff, mypy, shellcheck; for aarch64, too, where its compiler is there
	@scripts/bootstrap.sh lint
	@clang-format --dry-run -Werror $(C_FILES)
	@mkdir -p $(BUILD)/tidy # the commands without the one flag that only gcc knows
	@sed 's/ -fno-tree-loop-distribute-patterns//' $(BUILD)/compile_commands.json >$(BUILD)/tidy/compile_commands.json
	@find core -name '*.c' | xargs -P 2 -n 1 $(TIDY) 2>/dev/null
	@scripts/check_aarch64.py $(BUILD)
	@$(VENV_PYTHON) -m ruff check .
	@$(VENV_PYTHON) -m ruff format --check .
	@$(VENV_PYTHON) -m mypy && $(VENV_PYTHON) -m mypy tests/wild/*.py
	@shellcheck -S warning scripts/*.sh .ci/run
	@test ! -d web/node_modules/prettier || npm --prefix web run --silent lint

format: ## rewrite C and Python sources in the project's style
	@scripts/bootstrap.sh lint
	@clang-format -i $(C_FILES)
	@$(VENV_PYTHON) -m ruff check --fix .
	@$(VENV_PYTHON) -m ruff format .

# The program with the sanitizers in it, and the agent: a sanitized one serves sanitized programs only (test_storm.py), so what is reported on
# is captured with the plain build.
asan: all ## unit tests, broken input and the server under the address and undefined-behaviour sanitizers
	@scripts/bootstrap.sh test
	@test -f build-asan/build.ninja || $(MESON) setup build-asan $(ASAN_FLAGS) >/dev/null
	@$(call ninja,build-asan)
	@failed=; \
	$(SAN_ENV) $(MESON) test -C build-asan --no-rebuild --print-errorlogs || failed=1; \
	$(SAN_ENV) FATHOM_BUILD=build-asan $(VENV_PYTHON) -m pytest -q tests/e2e/test_bad_input.py $(SERVER_E2E) $(PYTEST_ARGS) || failed=1; \
	$(VENV_PYTHON) -m pytest -q tests/e2e/test_storm.py -k asan $(PYTEST_ARGS) || failed=1; test -z "$$failed"

tsan: all ## unit tests, the server and the collector under the thread sanitizer
	@scripts/bootstrap.sh test
	@test -f build-tsan/build.ninja || $(MESON) setup build-tsan $(TSAN_FLAGS) >/dev/null
	@$(call ninja,build-tsan)
	@failed=; $(MESON) test -C build-tsan --no-rebuild --print-errorlogs || failed=1; \
	FATHOM_BUILD=build-tsan $(VENV_PYTHON) -m pytest -q $(SERVER_E2E) $(PYTEST_ARGS) || failed=1; \
	$(VENV_PYTHON) -m pytest -q tests/e2e/test_storm.py -k tsan $(PYTEST_ARGS) || failed=1; test -z "$$failed"

fuzz: ## run every fuzz target (or FUZZ_TARGETS="cfi import:pprof") for FUZZ_SECONDS (30) each
	@scripts/bootstrap.sh fuzz
	@test -f build-fuzz/build.ninja || CC=clang $(MESON) setup build-fuzz $(FUZZ_FLAGS) >/dev/null
	@$(call ninja,build-fuzz)
	@$(SAN_ENV) scripts/fuzz.sh build-fuzz $(FUZZ_SECONDS) $(FUZZ_TARGETS)

chaos: all ## hostile programs, CHAOS_RUNS (459) times each, or for CHAOS_SECONDS, over all Pythons and modes; CHAOS_ARGS narrows it down
	@scripts/bootstrap.sh test
	@$(VENV_PYTHON) tests/chaos/run.py $(if $(CHAOS_SECONDS),--seconds $(CHAOS_SECONDS),--runs $(CHAOS_RUNS)) --fathom $(BUILD)/fathom --folder $(BUILD)/chaos $(CHAOS_ARGS)

chaos-inject: ## hostile programs for CHAOS_SECONDS (600), with an agent whose reads of foreign memory fault again and again
	@scripts/bootstrap.sh test
	@test -f build-inject/build.ninja || $(MESON) setup build-inject -Dinject_faults=true >/dev/null
	@$(call ninja,build-inject)
	@$(VENV_PYTHON) tests/chaos/run.py --inject --seconds $(or $(CHAOS_SECONDS),600) --fathom build-inject/fathom --folder build-inject/chaos $(CHAOS_ARGS)

wild: all ## other people's programs (or WILD=imports,cpython) under Fathom, for WILD_SECONDS if given; hours
	@scripts/bootstrap.sh test
	@$(VENV_PYTHON) tests/wild/run.py --fathom $(BUILD)/fathom --write $(if $(WILD),--only $(WILD)) $(if $(WILD_SECONDS),--seconds $(WILD_SECONDS)) $(WILD_ARGS)

sentences: ## write tests/sentences.txt anew: every sentence that a user can see
	@$(VENV_PYTHON) scripts/list_strings.py > tests/sentences.txt

pictures: all ## make README's pictures and its sample anew (a quiet machine, Chromium)
	@$(VENV_PYTHON) scripts/make_pictures.py

bench: all ## measure Fathom beside its peers and print ratios
	@bench/run $(BENCH_ARGS)

# meson-python names the Python that built the wheel as the oldest it serves. Nothing in it depends on that one: the program is
# no extension, and the agent takes its offsets from pyabi. bundle_libraries.py makes the name say what is true.
define build_wheel # BUILD-FOLDER MORE-SETTINGS
	@rm -f $(WHEEL_DIR)/fathom_profiler-*.whl
	@PATH="$(CURDIR)/.venv/bin:$$PATH" $(VENV_PYTHON) -m build --wheel --no-isolation --outdir $(WHEEL_DIR) -Cbuild-dir=$(1) $(2) >$(1).log 2>&1 || \
		{ tail -n 30 $(1).log; exit 1; }
	@rm -f $(1).log
endef
WHEEL_FOLDER = $(abspath $(strip $(WHEEL_TOOLS))/$(strip $(WHEEL_TARGET)))

wheel: ## build dist/*.whl, which needs nothing of a machine but Python and a glibc of 2.17 or newer
	@scripts/bootstrap.sh wheel
	@scripts/wheel_libraries.sh $(strip $(WHEEL_TARGET)) $(WHEEL_FOLDER)
	$(call build_wheel,build-wheel-$(strip $(WHEEL_TARGET)),-Csetup-args=--native-file=$(WHEEL_FOLDER)/machine.ini -Csetup-args=-Db_pie=true)
	@scripts/check_sigsafe.py build-wheel-$(strip $(WHEEL_TARGET))
	@PATH="$(CURDIR)/.venv/bin:$$PATH" $(VENV_PYTHON) scripts/bundle_libraries.py --from $(WHEEL_FOLDER) $(WHEEL_DIR)/fathom_profiler-*.whl
	@$(VENV_PYTHON) scripts/check_wheel.py --max-mb $(WHEEL_MAX_MB) $(WHEEL_DIR)/fathom_profiler-*.whl

wheel-here: ## the same with this machine's compiler and libraries, for machines whose glibc is as new
	@scripts/bootstrap.sh wheel-here
	$(call build_wheel,build-wheel)
	@$(VENV_PYTHON) scripts/bundle_libraries.py $(WHEEL_DIR)/fathom_profiler-*.whl
	@$(VENV_PYTHON) scripts/check_wheel.py $(WHEEL_DIR)/fathom_profiler-*.whl

wheel-check: ## demo and tests of the wheel in dist, as an ordinary user in bare roots of old systems
	@$(VENV_PYTHON) scripts/try_wheel.py --roots $(strip $(WHEEL_TOOLS))/roots --tools build-wheel-$(strip $(WHEEL_TARGET)) $(WHEEL_DIR)/fathom_profiler-*.whl

install: all ## install below PREFIX (/usr/local); DESTDIR is understood
	@$(MESON) configure $(BUILD) -Dprefix=$(PREFIX)
	@$(MESON) install -C $(BUILD)

clean: ## remove everything that was built (not .venv)
	@rm -rf build build-* dist

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
