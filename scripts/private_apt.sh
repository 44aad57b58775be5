# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# To be sourced: apt with a whole configuration of its own below one folder. Nothing is installed, nothing outside of the folder
# changes, no root is needed. Only how to fetch (proxies and such) is taken over from the machine's: its other parts also hold
# hooks that run after an update and have no business here.

# The first archive that this machine's apt reads and that calls itself Debian; security and the like hold no other suites.
debian_mirror() {
	if [ -n "${FATHOM_DEBIAN_MIRROR:-}" ]; then
		echo "$FATHOM_DEBIAN_MIRROR"
		return
	fi
	apt-get indextargets --format '$(REPO_URI) $(LABEL)' 'Created-By: Packages' 2>/dev/null |
		awk '$2 == "Debian" || $1 ~ /\/debian\/?$/ { print $1; exit }'
}

debian_keyring() {
	local key
	for key in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
		[ ! -e "$key" ] || echo "[signed-by=$key]"
	done | head -n 1
}

# private_apt FOLDER: writes the configuration and lets every apt from here on use it. The caller writes FOLDER/sources.list.
# Nothing counts as installed there: every library is fetched, libc too.
private_apt() {
	local state=$1
	mkdir -p "$state"/lists/partial "$state"/cache/archives/partial
	: >"$state/status"
	{
		apt-config dump | grep '^Acquire::' || true
		cat <<-CONF
		Dir::Etc::main "/dev/null";
		Dir::Etc::parts "/dev/null";
		Dir::Etc::sourcelist "$state/sources.list";
		Dir::Etc::sourceparts "/dev/null";
		Dir::Etc::preferencesparts "/dev/null";
		Dir::State "$state";
		Dir::State::lists "$state/lists";
		Dir::State::status "$state/status";
		Dir::Cache "$state/cache";
		Dir::Log "$state";
		APT::Sandbox::User "";
		APT::Install-Recommends "false";
		APT::Get::Assume-Yes "true";
		Acquire::Languages "none";
		CONF
	} >"$state/apt.conf"
	export APT_CONFIG=$state/apt.conf
}
