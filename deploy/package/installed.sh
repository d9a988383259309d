#!/bin/sh
# After the files of a package are there: deb calls it with "configure" and, at an upgrade, the version
# before; rpm with how many versions are installed.
set -e

if ! getent passwd stepboard >/dev/null; then
    useradd --system --user-group --home-dir /var/lib/stepboard --no-create-home \
        --shell /usr/sbin/nologin --comment "Stepboard" stepboard
fi
install -d -m 0700 -o stepboard -g stepboard /var/lib/stepboard
chown root:stepboard /etc/stepboard/stepboard.yaml
chmod 0640 /etc/stepboard/stepboard.yaml

upgraded=no
case "$1" in
configure) [ -z "$2" ] || upgraded=yes ;;
abort-*) exit 0 ;;
*) [ "$1" -lt 2 ] 2>/dev/null || upgraded=yes ;;
esac

# In a container or a chroot there may be no systemd.
if command -v systemctl >/dev/null; then
    systemctl daemon-reload || true
    [ $upgraded = no ] || systemctl try-restart stepboard.service || true
fi
if [ $upgraded = no ]; then
    echo "Stepboard is installed, and not started. Look at /etc/stepboard/stepboard.yaml, then:"
    echo "    systemctl enable --now stepboard"
    echo "    sudo -u stepboard stepboard token --config /etc/stepboard/stepboard.yaml --data /var/lib/stepboard --user 1"
fi
