#!/bin/sh
# Before the files of a package go: deb calls it with "remove" or "upgrade", rpm with how many versions
# remain.
set -e
case "$1" in
remove | 0) if command -v systemctl >/dev/null; then systemctl disable --now stepboard.service || true; fi ;;
esac
