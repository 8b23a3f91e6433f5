#!/bin/sh
# The script never deletes the data in /var/lib/certvault or the user that owns the data, not even on a
# purge: deleted keys cannot be restored.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
fi
