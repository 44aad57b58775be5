#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the end-to-end tests, as `make check-e2e` does: e2e.sh PYTHON BUILD [argument of pytest ...]
#
# Most share the machine: a worker for each CPU and two more, as they sleep and wait for each other some of their time (FATHOM_TEST_WORKERS for another number).
# Those marked `alone` judge how punctual something is, and come after. Tests marked `statistical` judge by statistics and are wrong one time in
# some hundred: a few of them get one second try, alone. Nothing else does, and no test in which a process crashed or hung.
python=$1 build=$2
shift 2
rm -f "$build"/e2e*.xml "$build"/e2e*-failed.json
PATH="$PATH:$PWD/.venv/bin" # node may be there
# What every worker would find out for itself: which Pythons there are, and what the tests are with their assertions written out.
FATHOM_TEST_FOUND=$(cd "$build" && pwd)/pythons.txt
"$python" scripts/find-pythons.py >"$FATHOM_TEST_FOUND" || exit 1
export FATHOM_TEST_FOUND
unset PYTHONDONTWRITEBYTECODE

# NAME argument ...: 5 is "no test was chosen", which a -k of the user may well bring about.
run() {
	name=$1
	shift
	"$python" -m pytest --junitxml="$build/$name.xml" --failures-to="$build/$name-failed.json" "$@"
	status=$?
	[ $status -eq 5 ] || return $status
}

failed=
# 1 is "tests failed"; anything else (an error while collecting, an interrupt) cannot be made good by a second try.
run e2e-shared tests/e2e -m "not alone" -n "${FATHOM_TEST_WORKERS:-$(($(nproc) + 2))}" --dist loadfile "$@" || failed="$failed $?"
# shellcheck disable=SC2046 # a list of files, none of which has blanks in its name; collecting all of them takes ten seconds
run e2e-alone $(grep -l 'pytest\.mark\.alone' tests/e2e/test_*.py) -m alone "$@" || failed="$failed $?"
[ -z "$failed" ] && exit
list=$build/e2e-again.txt
"$python" scripts/second_tries.py "$list" "$build/e2e-shared-failed.json" "$build/e2e-alone-failed.json"
final=$?
case "$failed " in *" "[!1]" "*) final=1 ;; esac
[ -s "$list" ] || exit 1
echo "Once more, what may have failed by chance:"
# shellcheck disable=SC2046
run e2e-again $(cut -d: -f1 "$list" | sort -u) --only-listed="$list" "$@" || final=1
exit $final
