#!/usr/bin/env bash
# What runs at signal time may call only what core/sigsafe/allowed_symbols.txt lists, and lies in section fm_sigsafe.
#
#   scripts/check_sigsafe.sh BUILD                 checks the archive of BUILD
#   scripts/check_sigsafe.sh --objects FILE...     checks these objects or archives
#
# It catches what eyes do not: a memset born from a zeroing loop, __tls_get_addr born from a plain __thread under -fPIC.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C # comm wants one order

if [ "$1" = --objects ]; then
	shift
	objects=("$@")
else
	objects=("$1/libfathom-sigsafe.a")
	if [ ! -e "${objects[0]}" ]; then
		if compgen -G 'core/sigsafe/*.c' >/dev/null; then
			echo "check-sigsafe: core/sigsafe has sources but ${objects[0]} was not built" >&2
			exit 1
		fi
		echo "check-sigsafe: core/sigsafe has no sources, nothing to check"
		exit 0
	fi
fi

allowed=core/sigsafe/allowed_symbols.txt
status=0

unexplained=$(awk '!/^#/ && NF == 1 { print $1 }' $allowed)
if [ -n "$unexplained" ]; then
	echo "check-sigsafe: $allowed lists without a reason: ${unexplained//$'\n'/ }"
	status=1
fi

undefined=$(nm -u "${objects[@]}" | awk 'NF == 2 { print $2 }' | sort -u)
known=$({
	nm --defined-only "${objects[@]}" | awk 'NF == 3 { print $3 }'
	awk '!/^#/ && NF { print $1 }' $allowed
} | sort -u)
for symbol in $(comm -23 <(echo "$undefined") <(echo "$known")); do
	from=$(nm -A -u "${objects[@]}" | awk -v s="$symbol" '$NF == s { n = split($1, part, ":"); print part[n - 1]; exit }')
	echo "check-sigsafe: $from uses $symbol, which $allowed does not list"
	status=1
done

# Every fm_sig_ function in the one section: a pc between its ends is one of our own frames.
outside=$(objdump -t "${objects[@]}" |
	awk '$3 == "F" && $NF ~ /^fm_sig_/ && $4 != "fm_sigsafe" { print "check-sigsafe: " $NF " lies in " $4 ": mark it FM_SIGSAFE" }')
if [ -n "$outside" ]; then
	echo "$outside"
	status=1
fi

n=$(echo "$undefined" | sed '/^$/d' | wc -l)
[ $status != 0 ] || echo "check-sigsafe: ${#objects[@]} archive or object files, $n outside symbols, all listed"
exit $status
