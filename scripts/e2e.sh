#!/bin/sh
# Runs the end-to-end tests, as `make check-e2e` does: e2e.sh PYTHON BUILD [argument of pytest ...]
#
# Most share the machine: a worker for each CPU. Those marked `alone` judge how punctual something is, and come after. What failed gets
# one second try, alone: tests that judge by statistics are wrong one time in some hundred, and there are hundreds. A fault fails twice.
python=$1 build=$2
shift 2
rm -f "$build"/e2e*.xml
PATH="$PATH:$PWD/.venv/bin" # node may be there

# NAME [argument ...]: 5 is "no test was chosen", which a -k of the user may well bring about.
run() {
	name=$1
	shift
	"$python" -m pytest tests/e2e --junitxml="$build/$name.xml" "$@"
	status=$?
	[ $status -eq 5 ] || return $status
}

failed=
run e2e-shared -m "not alone" -n auto --dist loadfile "$@" || failed=1
run e2e-alone -m alone "$@" || failed=1
[ -z "$failed" ] && exit
echo "Once more, what failed:"
run e2e-again --last-failed "$@"
