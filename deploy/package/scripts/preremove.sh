#!/bin/sh
# If another version replaces this one, the first argument is "upgrade" with dpkg, and 1 or more with rpm.
set -e
case ${1:-} in
upgrade | failed-upgrade | [1-9]*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now certvault.socket certvault.service || :
fi
