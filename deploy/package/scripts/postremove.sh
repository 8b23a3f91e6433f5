#!/bin/sh
# The script does not delete the data in /var/lib/certvault or the user that owns the data, also on a purge:
# deleted keys cannot be restored.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
fi
