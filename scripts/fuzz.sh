#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/fuzz.sh BUILD SECONDS [TARGET[:FORMAT] ...]: every fuzz target, or those named, for that long. New inputs stay in BUILD/corpus; a crash stops with its
# file named. import:pprof searches in that format alone; import:all in each for that long.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1 seconds=$2
shift 2
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-}:suppressions=$PWD/tests/fuzz/ubsan.supp"
# A large quarantine of freed memory means fresh pages for every input, which costs more than the inputs do; so do long stacks of each allocation, and frames on the
# heap. `make asan` has all of it.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:quarantine_size_mb=8:malloc_context_size=3:detect_stack_use_after_return=0"
search() { # PROGRAM NAME [FORMAT]
	local program=$1 name=$2 format=${3:-} seeds corpus
	corpus=$build/corpus/$name${format:+_$format}
	mkdir -p "$corpus"
	seeds=("$corpus")
	if [ -d "tests/fuzz/corpus/$name" ]; then
		seeds+=("tests/fuzz/corpus/$name")
	else
		"$build/tests/fuzz/seed_reader" --seeds "$corpus" # built by code
	fi
	echo "fuzz: $name${format:+, $format,} for $seconds s"
	# entropic: which input to vary next is chosen with more thought, which for inputs that reach much takes longer than to run them.
	# What one input may take is part of the verdict: seconds on the clock of a busy machine, memory in all and in one piece.
	env ${format:+FUZZ_FORMAT="$format"} "$program" -entropic=0 -max_total_time="$seconds" -timeout=60 -rss_limit_mb=1024 -malloc_limit_mb=256 -print_final_stats=1 \
		-verbosity=0 -artifact_prefix="$build/$name-" "${seeds[@]}" 2>&1 | grep -v -e '^INFO:' -e '^#####' -e '# Uses:' || exit 1
}

formats=$(sed -n 's/^\t{ "\([a-z.-]*\)",.*/\1/p' core/import/import.c) # as `fathom import --list` has them
for program in "$build"/tests/fuzz/fuzz_*; do
	if [ -d "$program" ] || [ ! -x "$program" ]; then
		continue # meson's folder of objects
	fi
	name=${program##*/fuzz_}
	for target in ${*:-"$name"}; do
		case $target in
		"$name") search "$program" "$name" ;;
		"$name:all") for format in $formats; do search "$program" "$name" "$format"; done ;;
		"$name:"*) search "$program" "$name" "${target#*:}" ;;
		esac
	done
done
