#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Gets Pythons that this machine does not have, for the tests: Debian's own binary packages of 3.14 and 3.15, unpacked
# into a private folder. Nothing is installed, nothing outside that folder changes, no root is needed.
#
#   scripts/get-debian-pythons.sh [-d DIR] [KIND ...]
#
# KIND: release (default), debug (3.14 with --with-pydebug), freethreaded (3.14 built here, since Debian has no binary of it:
# from Debian's source package, or from the tree FATHOM_CPYTHON_SOURCE where the mirror has no sources; needs a compiler and some
# minutes), testsuite (CPython's own tests for the released ones, which then hold 40 MB more each). DIR: .tools/pythons of this repository.
# Result: DIR/bin/python3.14 and so on; scripts/find-pythons.py finds them there. Run again, it does only what is missing.
#
# The mirror is the one this machine's apt already uses (or FATHOM_DEBIAN_MIRROR); what cannot be had is skipped with one
# line, and the exit status stays 0: tests then run over fewer Pythons.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/scripts/private_apt.sh"
dir=$here/.tools/pythons
versions="3.14 3.15"
debug_version=3.14
freethreaded_version=3.14
suite=sid

while getopts d:h opt; do
	case $opt in
	d) dir=$OPTARG ;;
	h) sed -n '2,/^set/{/^#/p}' "$0"; exit 0 ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
kinds=${*:-release}

skip() { echo "get-debian-pythons: skipped: $*"; exit 0; }
say() { echo "get-debian-pythons: $*"; }

for tool in apt-get apt-config dpkg-deb; do
	command -v $tool >/dev/null || skip "no $tool on this machine"
done

mirror=$(debian_mirror)
[ -n "$mirror" ] || skip "apt here reads no Debian archive (set FATHOM_DEBIAN_MIRROR)"

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
root=$dir/root
state=$dir/apt
mkdir -p "$root" "$dir/bin"
private_apt "$state"
signed_by=$(debian_keyring)
{
	echo "deb $signed_by $mirror $suite main"
	case $kinds in *freethreaded*) echo "deb-src $signed_by $mirror $suite main" ;; esac
} >"$state/sources.list"

apt-get -qq update >"$state/log" 2>&1 || skip "no $suite at this machine's Debian mirror ($(tail -1 "$state/log"))"

has_package() { [ -n "$(apt-cache show "$1" 2>/dev/null)" ]; }

# Unpacks packages and what they need. Already unpacked ones are known by a mark, so a second run is quick.
unpack() {
	apt-get -qq --download-only install "$@" >>"$state/log" 2>&1 || return 1
	unpack_cached
}

# The same without what they need: headers, whose packages would bring a compiler's whole world.
unpack_alone() {
	(cd "$state/cache/archives" && apt-get -qq download "$@") >>"$state/log" 2>&1 || return 1
	unpack_cached
}

unpack_cached() {
	local deb
	mkdir -p "$state/unpacked"
	for deb in "$state"/cache/archives/*.deb; do
		[ -e "$deb" ] || continue
		[ -e "$state/unpacked/${deb##*/}" ] || dpkg-deb -x "$deb" "$root" || return 1
		: >"$state/unpacked/${deb##*/}"
	done
	# Large and of no use to a test: separate debug symbols, static libraries.
	rm -rf "$root/usr/lib/debug"
	find "$root" -name '*.a' -delete
}

library_path() { dirname "$(find "$root/usr/lib" "$root/lib" -name libc.so.6 2>/dev/null | head -1)"; }

loader() { find "$root/usr/lib64" "$root/lib64" "$root/usr/lib" "$root/lib" -name 'ld-linux*.so.*' 2>/dev/null | head -1; }

# Debian's patchelf may be as new as its libc, hence run by the unpacked loader.
patchelf() { "$(loader)" --library-path "$(library_path)" "$root/usr/bin/patchelf" "$@"; }

# Makes one unpacked interpreter run here, as an ordinary program: sys.executable, LD_PRELOAD and child processes work as
# usual, which they do not behind a "ld.so --library-path" wrapper. An rpath (not a runpath) also serves the extension modules.
# Two steps, in this order: patchelf 0.18 and 0.19 spoil these (non-PIE) programs when both are changed in one go.
install_python() {
	local name=$1 exe=$root/usr/bin/$1
	[ -x "$exe" ] || return 1
	if [ "$(patchelf --print-interpreter "$exe")" != "$(loader)" ]; then
		cp "$exe" "$exe.new" && patchelf --force-rpath --set-rpath "$(library_path)" "$exe.new" &&
			patchelf --set-interpreter "$(loader)" "$exe.new" && mv "$exe.new" "$exe" || return 1
	fi
	ln -sfn "../root/usr/bin/$name" "$dir/bin/$name"
	"$dir/bin/$name" -c 'import ctypes, ssl, sqlite3, lzma' 2>>"$state/log"
}

report() {
	if "$@" >/dev/null; then
		say "have $dir/bin/${!#}: $("$dir/bin/${!#}" -VV | head -1)"
	else
		rm -f "$dir/bin/${!#}"
		say "skipped: ${!#} does not run here (see $state/log)"
	fi
}

get_release() {
	local v
	for v in $versions; do
		if ! has_package python$v-minimal; then
			say "skipped: Debian $suite has no python$v"
		elif ! unpack patchelf python$v-minimal libpython$v-stdlib || ! unpack_alone libpython$v-dev; then
			say "skipped: python$v could not be fetched (see $state/log)"
		else
			report install_python python$v
		fi
	done
}

# `make wild` alone asks for it, into a folder of its own.
get_testsuite() {
	local v
	for v in $versions; do
		if ! unpack_alone libpython$v-testsuite; then
			say "skipped: the tests of python$v could not be fetched (see $state/log)"
		fi
	done
}

get_debug() {
	local v=$debug_version
	if ! has_package python$v-dbg; then
		say "skipped: Debian $suite has no python$v-dbg"
	elif ! unpack patchelf python$v-minimal libpython$v-stdlib ||
		! unpack_alone python$v-dbg libpython$v-dbg libpython$v-dev; then
		say "skipped: python$v-dbg could not be fetched (see $state/log)"
	else
		report install_python python$v-dbg
	fi
}

# Leaves the source in $1.
get_source() {
	mkdir -p "$1"
	if [ -n "${FATHOM_CPYTHON_SOURCE:-}" ]; then
		cp -a "$FATHOM_CPYTHON_SOURCE/." "$1"
	else
		(cd "$state" && apt-get -qq --download-only source python$freethreaded_version) >>"$state/log" 2>&1 || return 1
		tar -C "$1" --strip-components=1 -xf "$(ls "$state"/python${freethreaded_version}_*.orig.tar.?z | tail -1)"
	fi
}

# Installed into a prefix of its own, against the host's libraries. -O1 without PGO or LTO: minutes instead of half an hour,
# and the layout of structures does not depend on it.
build_freethreaded() {
	local tree=$state/source
	rm -rf "$tree"
	get_source "$tree" || return 1
	(cd "$tree" && ./configure -q --disable-gil --prefix="$dir/freethreaded" --disable-test-modules CFLAGS='-O1 -g0' &&
		make -s -j"$(nproc)" && make -s install) >>"$state/log" 2>&1 || return 1
	rm -rf "$tree"
}

get_freethreaded() {
	local t=python${freethreaded_version}t
	if [ ! -x "$dir/freethreaded/bin/$t" ]; then
		command -v cc make >/dev/null || { say "skipped: no compiler for $t"; return; }
		say "building $t: takes some minutes"
		build_freethreaded || { say "skipped: $t could not be had or built (see $state/log)"; return; }
	fi
	ln -sfn "../freethreaded/bin/$t" "$dir/bin/$t"
	report "$dir/bin/$t" -c 'import ctypes' $t
}

for kind in $kinds; do
	case $kind in
	release) get_release ;;
	debug) get_debug ;;
	testsuite) get_testsuite ;;
	freethreaded) get_freethreaded ;;
	*) echo "get-debian-pythons: unknown kind: $kind (release, debug, freethreaded, testsuite)" >&2; exit 2 ;;
	esac
done
