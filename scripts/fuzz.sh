#!/usr/bin/env bash
# scripts/fuzz.sh BUILD SECONDS: every fuzz target for that long. New inputs stay in BUILD/corpus; a crash stops with its file named.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1 seconds=$2
for program in "$build"/tests/fuzz/fuzz_*; do
	if [ -d "$program" ] || [ ! -x "$program" ]; then
		continue # meson's folder of objects
	fi
	name=${program##*/fuzz_}
	mkdir -p "$build/corpus/$name"
	echo "fuzz: $name for $seconds s"
	"$program" -max_total_time="$seconds" -print_final_stats=1 -verbosity=0 -artifact_prefix="$build/$name-" \
		"$build/corpus/$name" "tests/fuzz/corpus/$name" 2>&1 | grep -v -e '^INFO:' -e '^#####' -e '# Uses:' || exit 1
done
