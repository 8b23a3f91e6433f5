#!/bin/sh
# Creates the user and the data folder. The script does not start the vault, because the operator must set
# the address first.
set -e
if ! getent passwd certvault >/dev/null; then
	nologin=/usr/sbin/nologin
	[ -x "$nologin" ] || nologin=/sbin/nologin
	useradd --system --user-group --home-dir /var/lib/certvault --no-create-home --shell "$nologin" \
		--comment Certvault certvault
fi
# The configuration may contain passwords.
chown root:certvault /etc/certvault
chmod 750 /etc/certvault
if [ ! -d /var/lib/certvault ]; then
	mkdir -p /var/lib/certvault
	chown certvault:certvault /var/lib/certvault
	chmod 700 /var/lib/certvault
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
	# After an upgrade, a running vault is restarted. New connections wait in the socket meanwhile.
	systemctl try-restart certvault.service || :
fi
