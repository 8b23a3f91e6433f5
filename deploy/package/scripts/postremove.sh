#!/bin/sh
# The data in /var/lib/certvault and the user that owns it remain, also after a purge, because deleted keys
# cannot be restored.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
fi
