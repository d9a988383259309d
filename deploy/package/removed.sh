#!/bin/sh
# After the files of a package are gone: deb calls it with "remove", "purge" or "upgrade", rpm with how
# many versions remain.
set -e
case "$1" in
remove | purge | 0)
    if command -v systemctl >/dev/null; then systemctl daemon-reload || true; fi
    if [ -d /var/lib/stepboard ]; then
        echo "The data of Stepboard is still in /var/lib/stepboard, of the account stepboard. To delete both:"
        echo "    rm -r /var/lib/stepboard && userdel stepboard"
    fi
    ;;
esac
