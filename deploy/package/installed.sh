#!/bin/sh
# After the files of a package are there: deb calls it with "configure" and, at an upgrade, the version
# before; rpm with how many versions are installed.
set -e

if ! getent passwd stepboard >/dev/null; then
    useradd --system --user-group --home-dir /var/lib/stepboard --no-create-home \
        --shell /usr/sbin/nologin --comment "Stepboard" stepboard
fi
install -d -m 0700 -o stepboard -g stepboard /var/lib/stepboard
# dpkg respects that somebody has removed it.
settings=/etc/stepboard/stepboard.yaml
if [ -e $settings ]; then
    chown root:stepboard $settings
    chmod 0640 $settings
else
    echo "There is no $settings, without which the service does not start:"
    echo "    install -m 0640 -g stepboard /dev/null $settings"
fi

upgraded=no
case "$1" in
configure) [ -z "$2" ] || upgraded=yes ;;
abort-*) exit 0 ;;
*) [ "$1" -lt 2 ] 2>/dev/null || upgraded=yes ;;
esac

# In a container or a chroot there may be no systemd. A removal has turned the service off, and dpkg
# calls an installation after it as it calls an upgrade.
off=yes
if command -v systemctl >/dev/null; then
    systemctl daemon-reload || true
    [ $upgraded = no ] || [ ! -e $settings ] || systemctl try-restart stepboard.service || true
    if systemctl is-enabled --quiet stepboard.service || systemctl is-active --quiet stepboard.service; then off=no; fi
fi
if [ $off = yes ]; then
    echo "Stepboard is installed, and the service is off. Look at $settings, then:"
    echo "    systemctl enable --now stepboard"
    echo "    sudo -u stepboard stepboard token --config $settings --data /var/lib/stepboard --user 1"
fi
