#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks bare roots of old systems below one folder, for `make wheel-check`: a shell, the usual small programs, glibc and a Python.
# Nothing is installed, no root is needed. What cannot be had is skipped with one line.
#
#   scripts/get_roots.sh FOLDER SUITE...
#
# SUITE: bullseye (glibc 2.31, Python 3.9), bookworm (2.36, 3.11), from the Debian mirror that this machine's apt uses; bionic (2.27, 3.8), where
# FATHOM_UBUNTU_MIRROR names one, and FATHOM_UBUNTU_KEYRING its keys.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/private_apt.sh

mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
say() { echo "get_roots: $*"; }
debian=$(debian_mirror) # before apt is a private one
programs="bash dash coreutils grep sed libc6 libc-bin base-files"

get_root() {
	local suite=$1 root=$folder/$1 state=$folder/apt-$1 python=python3 more='' deb
	[ ! -e "$root/.done" ] || return 0
	private_apt "$state"
	case $suite in
	bionic)
		[ -n "${FATHOM_UBUNTU_MIRROR:-}" ] || { say "skipped: $suite (set FATHOM_UBUNTU_MIRROR)"; return 0; }
		python=python3.8 more=python3-distutils
		printf 'deb [signed-by=%s] %s %s main universe\n' "$FATHOM_UBUNTU_KEYRING" "$FATHOM_UBUNTU_MIRROR" $suite \
			"$FATHOM_UBUNTU_KEYRING" "$FATHOM_UBUNTU_MIRROR" $suite-updates >"$state/sources.list"
		;;
	*) echo "deb $(debian_keyring) $debian $suite main" >"$state/sources.list" ;;
	esac
	say "getting $suite"
	# shellcheck disable=SC2086
	if ! { apt-get -qq update && apt-get -qq --download-only install $programs $python $python-venv $more; } >"$state/log" 2>&1; then
		say "skipped: $suite ($(grep '^E:' "$state/log" | head -n 1))"
		return 0
	fi
	mkdir -p "$root"
	for deb in "$state"/cache/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --keep-directory-symlink --no-same-owner
	done
	# What the packages' own scripts would have done.
	[ -e "$root/bin/sh" ] || ln -s dash "$root/bin/sh"
	[ $python = python3 ] || ln -sfn $python "$root/usr/bin/python3" # an older one may have come along
	printf 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n' >"$root/etc/passwd"
	printf 'root:x:0:\nuser:x:1000:\n' >"$root/etc/group"
	mkdir -p "$root/proc" "$root/dev" "$root/tmp" "$root/home/user" "$root/work"
	rm -rf "$state/cache/archives"
	touch "$root/.done"
}

for suite in "$@"; do
	get_root "$suite"
done
