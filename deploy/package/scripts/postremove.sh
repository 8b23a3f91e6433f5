#!/bin/sh
# The data in /var/lib/certvault and the user to which it belongs remain, also after a purge: nobody could
# restore the keys.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
fi
