#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/fuzz.sh BUILD SECONDS [TARGET ...]: every fuzz target, or those named, for that long. New inputs stay in BUILD/corpus; a crash stops with its
# file named.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1 seconds=$2
shift 2
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-}:suppressions=$PWD/tests/fuzz/ubsan.supp"
# A large quarantine of freed memory means fresh pages for every input, which costs more than the inputs do; so do long stacks of each allocation, and frames on the
# heap. `make asan` has all of it.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:quarantine_size_mb=8:malloc_context_size=3:detect_stack_use_after_return=0"
wanted=" $* "
for program in "$build"/tests/fuzz/fuzz_*; do
	if [ -d "$program" ] || [ ! -x "$program" ]; then
		continue # meson's folder of objects
	fi
	name=${program##*/fuzz_}
	if [ "$wanted" != "  " ] && [ "${wanted#* "$name" }" = "$wanted" ]; then
		continue
	fi
	mkdir -p "$build/corpus/$name"
	seeds=("$build/corpus/$name")
	if [ -d "tests/fuzz/corpus/$name" ]; then
		seeds+=("tests/fuzz/corpus/$name")
	else
		"$build/tests/fuzz/seed_reader" --seeds "$build/corpus/$name" # built by code
	fi
	echo "fuzz: $name for $seconds s"
	# entropic: which input to vary next is chosen with more thought, which for inputs that reach much takes longer than to run them.
	# What one input may take is part of the verdict: seconds on the clock of a busy machine, memory in all and in one piece.
	"$program" -entropic=0 -max_total_time="$seconds" -timeout=60 -rss_limit_mb=1024 -malloc_limit_mb=256 -print_final_stats=1 -verbosity=0 -artifact_prefix="$build/$name-" \
		"${seeds[@]}" 2>&1 | grep -v -e '^INFO:' -e '^#####' -e '# Uses:' || exit 1
done
