#!/usr/bin/env bash
# Installs each package in a fresh root, starts the vault, and uploads a certificate.
#
#   deploy/package/test.sh DIST [deb|rpm|tar|image ...]
#
# It requires root, and works in its own mount, network and process namespaces. The deb and the rpm are
# installed in a copy of this system (an overlay), the tar and the image in an empty folder.
set -euo pipefail
dist=$(realpath "$1")
shift
(($#)) || set -- deb rpm tar image
here=$(dirname "$(realpath "$0")")
if [[ -z ${CERTVAULT_INSIDE:-} ]]; then
	export CERTVAULT_INSIDE=1
	exec unshare --mount --net --uts --ipc --pid --fork --mount-proc --kill-child "$0" "$dist" "$@"
fi
chroot=$(command -v chroot)
pdf=$here/../../internal/design/builtin/pdf/guild-a4.pdf

fail() {
	echo "package: $kind: $*" >&2
	exit 1
}

# setting NAME: prints the value of a setting of the unit.
setting() { sed -n "s/^$1=//p" "$root/usr/lib/systemd/system/certvault.service"; }

# as_user COMMAND...: runs a command in the root as the user of the unit, with the environment of the unit
# and without privileges.
as_user() {
	chroot "$root" "$setpriv" --reuid "$user" --regid "$user" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
		/usr/bin/env -i HOME=/ "${environment[@]}" "$@"
}

# upload: creates an institution and a token, uploads a certificate, and waits until it is approved.
upload() {
	echo 'a good password' | "$@" institution create --name 'Northwind University' --prefix NWU \
		--owner-email owner@example.org --owner-name Owner --owner-password-stdin >/dev/null
	local token
	token=$("$@" token create --institution northwind-university --name Test \
		--permission certificate-vault:create --permission certificate-vault:view 2>/dev/null)
	cp "$pdf" "$root/tmp/certificate.pdf"
	chmod 644 "$root/tmp/certificate.pdf"
	environment+=("CERTVAULT_TOKEN=$token" "CERTVAULT_CA=$data/tls/cert.pem")
	"$@" upload /tmp/certificate.pdf --url "$url" --title Diploma --name 'Ada Lovelace' --email ada@example.org --wait >"$work/result"
	grep -q "$url/verify/NWU-" "$work/result" || fail "the upload printed $(<"$work/result")"
}

# ready: waits until the vault responds. The first argument is the address.
ready() {
	for ((i = 0; i < 300; i++)); do
		[[ $(curl -ks --max-time 2 "$1/readyz") == ready ]] && return
		kill -0 "$server" 2>/dev/null || fail "the vault exited: $(tail -5 "$work/log")"
		sleep 0.1
	done
	fail "the vault is not ready: $(tail -5 "$work/log")"
}

# stop: ends the vault, which must exit with 0.
stop() {
	# $server is the process of the vault, because chroot and setpriv start the vault with exec.
	kill -TERM "$server"
	wait "$server" || fail "the exit code is $?: $(tail -5 "$work/log")"
}

# not_compiled: checks that the vault used the compiled renderer of the package and did not compile one.
not_compiled() {
	[[ ! -e $root$data/cache ]] || fail 'the vault compiled the PDF renderer, although the package has it'
}

# system: tests an installed deb or rpm, with the user, the environment and the command of its unit.
system() {
	user=$(setting User) data=/var/lib/certvault url=https://localhost setpriv=/usr/bin/setpriv
	mapfile -t environment < <(setting Environment)
	[[ $(chroot "$root" stat -c %U:%a "$data") == certvault:700 ]] || fail "owner of $data: $(chroot "$root" stat -c %U:%a "$data")"
	chroot "$root" man -w certvault >/dev/null 2>&1 || [[ ! -e $root/usr/bin/man ]] || fail 'there is no manual page'
	# systemd-socket-activate opens the privileged port, so that the server needs no privileges.
	# shellcheck disable=SC2046 # the command of the unit has several words
	chroot "$root" systemd-socket-activate --listen="$(sed -n 's/^ListenStream=//p' "$root/usr/lib/systemd/system/certvault.socket")" \
		"$setpriv" --reuid "$user" --regid "$user" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
		/usr/bin/env "${environment[@]}" $(setting ExecStart) >"$work/log" 2>&1 &
	server=$!
	ready "$url"
	upload as_user /usr/bin/certvault
	stop
	not_compiled
}

# copy: makes the root a copy of this system. Changes are stored in memory.
copy() {
	mkdir "$work/upper" "$work/work"
	mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$root"
	mount --bind /dev "$root/dev"
	mount -t proc proc "$root/proc"
	mount -t tmpfs tmpfs "$root/tmp"
	mount -t tmpfs tmpfs "$root/run"
	cp "$dist"/certvault* "$root/tmp/"
}

test_deb() {
	copy
	chroot "$root" sh -c 'dpkg -i /tmp/certvault_*.deb' >"$work/log" 2>&1 || fail "dpkg: $(<"$work/log")"
	system
	chroot "$root" dpkg --purge certvault >"$work/log" 2>&1 || fail "dpkg --purge: $(<"$work/log")"
	[[ ! -e $root/usr/bin/certvault && ! -e $root/etc/certvault && -e $root/var/lib/certvault/certvault.db ]] ||
		fail 'after a purge, programs or settings remain, or the data does not'
}

test_rpm() {
	copy
	# --nodeps: this system has no rpm database with the packages that the rpm requires.
	chroot "$root" sh -c 'rpm --initdb && rpm -i --nodeps /tmp/certvault-*.rpm' >"$work/log" 2>&1 || fail "rpm: $(<"$work/log")"
	system
	chroot "$root" rpm -e certvault >"$work/log" 2>&1 || fail "rpm -e: $(<"$work/log")"
	[[ ! -e $root/usr/bin/certvault && -e $root/var/lib/certvault/certvault.db ]] || fail 'the program remains, or the data does not'
}

# empty COMMAND...: starts the vault with a command, in a root without other programs.
empty() {
	environment=() server='' url=https://localhost:8443
	"$@" >"$work/log" 2>&1 &
	server=$!
	ready "$url"
}

test_tar() {
	tar -C "$root" --strip-components=1 -xzf "$dist"/certvault-*.tar.gz
	data=/data
	mkdir "$root/tmp" "$root/etc"
	echo '127.0.0.1 localhost' >"$root/etc/hosts"
	run() { env -i CERTVAULT_DATA=/data CERTVAULT_CACHE=/renderer "${environment[@]}" "$chroot" "$root" /certvault "$@"; }
	environment=()
	empty env -i CERTVAULT_DATA=/data CERTVAULT_CACHE=/renderer "$chroot" "$root" /certvault serve
	upload run
	stop
	not_compiled
}

# The image is tested with the user and the environment of its configuration, and with a read-only root.
test_image() {
	mkdir "$work/image"
	tar -C "$work/image" -xf "$dist"/certvault-*-image-*.tar
	local config layer
	config=$(sed -E 's/.*"Config":"([^"]*)".*/\1/' "$work/image/manifest.json")
	layer=$(sed -E 's/.*"Layers":\["([^"]*)".*/\1/' "$work/image/manifest.json")
	tar -C "$root" -xzf "$work/image/$layer"
	config=$(<"$work/image/$config")
	user=$(sed -E 's/.*"User":"([0-9]+):.*/\1/' <<<"$config") data=/var/lib/certvault
	[[ $user == 65532 ]] || fail "the user is $user"
	mapfile -t variables < <(sed -E 's/.*"Env":\[([^]]*)\].*/\1/' <<<"$config" | tr ',' '\n' | tr -d '"')
	# A container runtime also provides /etc/hosts, a read-only root, a volume for the data, and /tmp.
	echo '127.0.0.1 localhost' >"$root/etc/hosts"
	mount --bind "$root" "$root"
	mount -o remount,bind,ro "$root"
	mount -t tmpfs -o "uid=$user,gid=$user,mode=700" tmpfs "$root$data"
	mount -t tmpfs tmpfs "$root/tmp"
	run() { env -i "${variables[@]}" "${environment[@]}" "$chroot" --userspec="$user:$user" "$root" /usr/bin/certvault "$@"; }
	environment=()
	empty env -i "${variables[@]}" "$chroot" --userspec="$user:$user" "$root" /usr/bin/certvault serve
	upload run
	stop
	not_compiled
}

ip link set lo up
for kind in "$@"; do
	(
		work=$(mktemp -d)
		trap 'umount -Rl "$work"; rmdir "$work"' EXIT
		mount -t tmpfs tmpfs "$work"
		root=$work/root
		mkdir "$root"
		"test_$kind"
	)
	echo "package: $kind: installed, started and used"
done
