#!/bin/sh
# Runs the end-to-end tests, as `make check-e2e` does: e2e.sh PYTHON BUILD [argument of pytest ...]
#
# Most share the machine: a worker for each CPU and one more, as they sleep a fifth of their time (FATHOM_TEST_WORKERS for another number).
# Those marked `alone` judge how punctual something is, and come after. What failed gets one second try, alone: tests that judge by statistics
# are wrong one time in some hundred, and there are hundreds. A fault fails twice.
python=$1 build=$2
shift 2
rm -f "$build"/e2e*.xml
PATH="$PATH:$PWD/.venv/bin" # node may be there

# NAME argument ...: 5 is "no test was chosen", which a -k of the user may well bring about.
run() {
	name=$1
	shift
	"$python" -m pytest --junitxml="$build/$name.xml" "$@"
	status=$?
	[ $status -eq 5 ] || return $status
}

failed=
run e2e-shared tests/e2e -m "not alone" -n "${FATHOM_TEST_WORKERS:-$(($(nproc) + 1))}" --dist loadfile "$@" || failed=1
# shellcheck disable=SC2046 # a list of files, none of which has blanks in its name; collecting all of them takes ten seconds
run e2e-alone $(grep -l 'pytest\.mark\.alone' tests/e2e/test_*.py) -m alone "$@" || failed=1
[ -z "$failed" ] && exit
echo "Once more, what failed:"
run e2e-again tests/e2e --last-failed "$@"
