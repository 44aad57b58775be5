#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the libraries that a wheel brings for an old glibc, from Debian's source packages, with a compiler that can aim at one
# (docs/decisions/0012-a-wheel-for-old-systems.md).
#
#   scripts/wheel_libraries.sh TARGET FOLDER       e.g. x86_64-linux-gnu.2.17 .tools/wheel/x86_64-linux-gnu.2.17
#
# Leaves in FOLDER: bin/ (the compiler under the names that builds ask for), prefix/ (headers, libraries, pkg-config files),
# machine.ini (for meson), licenses/SONAME.{source,copyright}. Run again, it does only what is missing: some minutes the first time.
# Needs apt with a Debian mirror, pip, dpkg-source, make and m4; leaves the machine as it was.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/private_apt.sh

[ $# = 2 ] || { sed -n '2,/^set/{/^#/p}' "$0" && exit 2; }
target=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
prefix=$folder/prefix
suite=bookworm # what `make test` runs with: the same versions, with Debian's fixes
host=${target%.*.*} # without the version of glibc
log=$folder/log
ZIG_VERSION=0.17.0 # a package of PyPI, of 180 MB unpacked; all of its targets are in it

fail() {
	echo "wheel_libraries: $*" >&2
	exit 1
}
say() { echo "wheel_libraries: $*"; }

tool() { # NAME COMMAND...
	printf '#!/bin/sh\nexec %s "$@"\n' "${*:2}" >"$folder/bin/$1"
	chmod +x "$folder/bin/$1"
}

# -O2 for every call, and never -O0, by which meson asks what a compiler can do: without optimisation zig adds checks for undefined behaviour
# that end the program, and links against a library of its own that it has to build first. Unasked, it adds debug information, too, which would be
# half of the wheel. The version script of zlib names functions that only other builds of it have.
make_compiler() {
	cat >"$folder/bin/cc" <<-SH
	#!/bin/sh
	for arg; do
		shift
		[ "\$arg" = -O0 ] || set -- "\$@" "\$arg"
	done
	exec $1 cc -target $target -O2 -g0 -Wl,--undefined-version -Wl,--build-id=sha1 "\$@"
	SH
	chmod +x "$folder/bin/cc"
}

make_tools() {
	local zig=$folder/../zig-$ZIG_VERSION/ziglang/zig
	if [ ! -x "$zig" ]; then
		say "getting zig $ZIG_VERSION"
		python3 -m pip install -q --no-compile --target "$folder/../zig-$ZIG_VERSION" "ziglang==$ZIG_VERSION" </dev/null >"$log" 2>&1 ||
			fail "pip could not get ziglang $ZIG_VERSION: $(grep -i error "$log" | tail -n 1)"
	fi
	zig=$(cd "$(dirname "$zig")" && pwd)/zig
	mkdir -p "$folder/bin" "$prefix/lib/pkgconfig" "$prefix/include" "$folder/licenses"
	make_compiler "$zig"
	tool ar "$zig ar"
	tool ranlib "$zig ranlib"
	cat >"$folder/machine.ini" <<-INI
	[binaries]
	c = '$folder/bin/cc'
	ar = '$folder/bin/ar'
	ranlib = '$folder/bin/ranlib'
	strip = 'strip'
	pkg-config = 'pkg-config'
	[built-in options]
	pkg_config_path = '$prefix/lib/pkgconfig'
	c_args = ['-I$prefix/include']
	c_link_args = ['-L$prefix/lib']
	INI
	export CC=$folder/bin/cc AR=$folder/bin/ar RANLIB=$folder/bin/ranlib CFLAGS="-fPIC -w -I$prefix/include" LDFLAGS="-L$prefix/lib"
	export PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig
}

get_sources() {
	local mirror key
	command -v dpkg-source >/dev/null || fail "no dpkg-source here; install dpkg-dev"
	mirror=$(debian_mirror)
	[ -n "$mirror" ] || fail "apt here reads no Debian archive (set FATHOM_DEBIAN_MIRROR)"
	key=$(debian_keyring)
	private_apt "$folder/apt"
	{
		echo "deb-src $key $mirror $suite main"
		echo "deb-src $key ${mirror%/}-security $suite-security main"
	} >"$folder/apt/sources.list"
	apt-get -qq update >"$log" 2>&1 || fail "no sources of $suite at this machine's Debian mirror: $(tail -n 1 "$log")"
	mkdir -p "$folder/src"
	(cd "$folder/src" && apt-get -qq source "$@") >>"$log" 2>&1 || fail "apt-get source $*: $(grep '^E:' "$log" | tail -n 1)"
}

tree_of() { find "$folder/src" -mindepth 1 -maxdepth 1 -type d -name "$1-[0-9]*"; }

version_of() { sed -n '1s/.*(\(.*\)).*/\1/p' "$(tree_of "$1")/debian/changelog"; }

# note SOURCE FILE...: whose they are, for bundle_libraries.py.
note() {
	local file name
	for file in "${@:2}"; do
		name=$(basename "$file")
		echo "$1 $(version_of "$1")" >"$folder/licenses/$name.source"
		cp "$(tree_of "$1")/debian/copyright" "$folder/licenses/$name.copyright"
	done
}

# Each of these is called where errors do not end the shell: hence the chains.
build_zlib() {
	CHOST=$host ./configure --prefix="$prefix" && make -s -j2 libz.so.1.2.13 && cp -P libz.so* "$prefix/lib/" &&
		cp zlib.h zconf.h "$prefix/include/" && cp zlib.pc "$prefix/lib/pkgconfig/" && note zlib libz.so.1
}

build_libzstd() {
	make -s -j2 -C lib libzstd MOREFLAGS="$CFLAGS" ZSTD_LEGACY_SUPPORT=0 &&
		make -s -C lib install-shared install-includes install-pc PREFIX="$prefix" && note libzstd libzstd.so.1
}

configure() {
	./configure -q --host="$host" --prefix="$prefix" --disable-dependency-tracking "$@"
}

build_libmicrohttpd() {
	configure --disable-static --disable-https --disable-doc --disable-examples --disable-curl --disable-bauth --disable-dauth \
		--disable-postprocessor &&
		make -s -j2 -C src/microhttpd libmicrohttpd.la && make -s -C src/microhttpd install-libLTLIBRARIES && make -s -C src/include install &&
		cp libmicrohttpd.pc "$prefix/lib/pkgconfig/" && note libmicrohttpd libmicrohttpd.so.12
}

# Linked into the program: in the public domain, so nothing is gained by a file of its own, and by far most of it is left out. What is
# left out here is refused to queries anyhow, or never called (core/render/query/guard.c).
build_sqlite3() {
	local left_out=() part
	for part in LOAD_EXTENSION DEPRECATED SHARED_CACHE WAL TRACE UTF16 TCL_VARIABLE COMPILEOPTION_DIAGS GET_TABLE INCRBLOB DESERIALIZE; do
		left_out+=("-DSQLITE_OMIT_$part")
	done
	mkdir -p amalgamation && cd amalgamation && ../configure -q --prefix="$prefix" --disable-tcl --disable-readline && make -s sqlite3.c sqlite3.h &&
		"$CC" $CFLAGS "${left_out[@]}" -DSQLITE_THREADSAFE=2 -DSQLITE_TEMP_STORE=3 -DSQLITE_ENABLE_MATH_FUNCTIONS -ffunction-sections \
			-c sqlite3.c -o sqlite3.o && rm -f "$prefix/lib/libsqlite3.a" && "$AR" rcs "$prefix/lib/libsqlite3.a" sqlite3.o &&
		cp sqlite3.h "$prefix/include/" && cp sqlite3.pc "$prefix/lib/pkgconfig/" && note sqlite3 libsqlite3.a
}

# Linked into the program, which demangles names by it and uses nothing else of it: so these files, and no configuration.
build_libiberty() {
	local part
	rm -f "$prefix/lib/libiberty.a"
	for part in cp-demangle cplus-dem d-demangle rust-demangle safe-ctype xexit xmalloc xstrdup; do
		"$CC" $CFLAGS -DHAVE_STDLIB_H -DHAVE_STRING_H -DHAVE_LIMITS_H -DHAVE_UNISTD_H -Iinclude -c libiberty/$part.c -o $part.o &&
			"$AR" rcs "$prefix/lib/libiberty.a" $part.o || return 1
	done
	note libiberty libiberty.a
}

# The two shared libraries alone: its own rules compile each file for a static one first, and its tools would demangle by a C++ library
# that zig would have to build.
build_elfutils() {
	local part
	ac_cv_lib_stdcpp___cxa_demangle=no configure --disable-debuginfod --disable-libdebuginfod --disable-nls --without-bzlib --without-lzma ||
		return 1
	printf '%%.os: %%.c\n\t$(COMPILE.os) -c -o $@ $(fpic_CFLAGS) $(DEFS.os) $<\n' >"$folder/shared-only.mk"
	for part in lib/libeu.a libelf/libelf.so libcpu/i386.mnemonics libcpu/x86_64.mnemonics libcpu/libcpu_pic.a backends/libebl_backends_pic.a libebl/libebl_pic.a libdwelf/libdwelf_pic.a \
		libdwfl/libdwfl_pic.a libdw/libdw_pic.a libdw/libdw.so; do
		make -s -j2 -C "${part%/*}" -f "$folder/shared-only.mk" -f Makefile CFLAGS="$CFLAGS" "${part##*/}" || return 1
	done
	for part in libelf libdw; do
		cp $part/$part.so "$prefix/lib/$part.so.1" && ln -sfn $part.so.1 "$prefix/lib/$part.so" &&
			cp config/$part.pc "$prefix/lib/pkgconfig/" || return 1
	done
	mkdir -p "$prefix/include/elfutils" && cp libelf/libelf.h libelf/gelf.h libdw/dwarf.h "$prefix/include/" &&
		cp libdw/libdw.h libdwfl/libdwfl.h version.h "$prefix/include/elfutils/" && note elfutils libelf.so.1 libdw.so.1
}

make_tools
libraries=(zlib libzstd libmicrohttpd sqlite3 libiberty elfutils)
wanted=()
for library in "${libraries[@]}"; do
	[ -e "$folder/done.source.$library" ] || wanted+=("$library")
done
[ ${#wanted[@]} = 0 ] || get_sources "${wanted[@]}"
for library in "${libraries[@]}"; do
	touch "$folder/done.source.$library"
	[ -e "$folder/done.$library" ] && continue
	say "building $library for $target"
	(cd "$(tree_of $library)" && build_$library) </dev/null >"$folder/log.$library" 2>&1 ||
		fail "$library could not be built: $(tail -n 3 "$folder/log.$library")"
	touch "$folder/done.$library"
done
