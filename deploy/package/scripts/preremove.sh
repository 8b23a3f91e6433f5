#!/bin/sh
# The argument is "upgrade" on Debian and 1 or more with rpm if another version follows.
set -e
case ${1:-} in
upgrade | failed-upgrade | [1-9]*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now certvault.socket certvault.service || :
fi
