#!/bin/bash
# Fuzzes one reader with libFuzzer under ASan and UBSan: scripts/fuzz.sh NAME [SECONDS], NAME as in tests/fuzz/fuzz_NAME.c.
# New inputs gather in build/fuzz/NAME; what is worth keeping goes to tests/fuzz/corpus/NAME, where it runs with the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:?usage: scripts/fuzz.sh NAME [SECONDS]}
seconds=${2:-60}
command -v clang >/dev/null || { echo "fuzz: skipped: no clang on this machine"; exit 0; }

# Which rooms a fuzzer needs, by its name.
case $name in
lines | debug_offsets) sources="core/pyabi/*.c core/base/err.c" ;;
*) echo "fuzz: no fuzzer called $name" >&2; exit 2 ;;
esac

mkdir -p "build/fuzz/$name"
# shellcheck disable=SC2086
clang -g -O1 -D_GNU_SOURCE -DFM_LIBFUZZER -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Icore \
	-o "build/fuzz/fuzz_$name" "tests/fuzz/fuzz_$name.c" $sources
"build/fuzz/fuzz_$name" -max_total_time="$seconds" -max_len=4096 -artifact_prefix="build/fuzz/$name-" \
	"build/fuzz/$name" "tests/fuzz/corpus/$name"
