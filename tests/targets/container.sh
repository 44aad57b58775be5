# Runs a program in a root of its own, as a container does: mounts of its own, and a root that is not reachable from outside.
# usage: container.sh FOLDER PYTHON_PREFIX [pid] -- PROGRAM [ARGUMENTS...], whose paths are those inside: /opt/py is PYTHON_PREFIX, /work is FOLDER.
set -e
work=$1 python=$2
shift 3
root=$(mktemp -d)
mount -t tmpfs none "$root"
for folder in usr lib lib64 bin etc dev proc; do
	[ -e "/$folder" ] || continue
	mkdir -p "$root/$folder"
	mount --rbind "/$folder" "$root/$folder"
done
mkdir -p "$root/opt/py" "$root/work" "$root/tmp" "$root/old"
mount --bind "$python" "$root/opt/py"
mount --bind "$work" "$root/work"
cd "$root"
pivot_root . old
umount -l /old
cd /work
exec "$@"
