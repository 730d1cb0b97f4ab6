#!/usr/bin/env bash
# Installs Debian packages, as root, and starts no service that nobody asked for. Called by setup.sh.
#
# Debian's mosquitto starts a broker on port 1883 when it is installed and at every boot. The demo and
# the tests start their own on a free port, so that one would only be in somebody's way: it is kept
# from starting by Debian's own means, a policy-rc.d, which is gone again at the end however we end,
# and which removes itself if we are killed.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
export PATH=$PATH:/usr/sbin:/sbin # which dpkg needs, and plain `su` leaves out
readonly POLICY=/usr/sbin/policy-rc.d
readonly LOCK_WAIT_S=300 # a fresh board often runs its first unattended upgrade just then

hold_mosquitto() {
    if [[ -e $POLICY ]]; then return; fi # the administrator's own policy stands
    trap 'rm -f "$POLICY"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    cat >"$POLICY" <<EOF
#!/bin/sh
# Tidegate's set-up is installing mosquitto (process $$) and removes this file afterwards.
kill -0 $$ 2>/dev/null || { rm -f "\$0"; exit 0; }
case "\$1" in mosquitto*) exit 101 ;; esac
exit 0
EOF
    chmod 0755 "$POLICY"
}

is_known() { apt-cache show "$1" 2>/dev/null | grep -q '^Filename:'; }

update() { apt-get update -o DPkg::Lock::Timeout="$LOCK_WAIT_S"; }

install() {
    apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout="$LOCK_WAIT_S" \
        -o Dpkg::Use-Pty=0 "$@"
}

for name in "$@"; do
    if ! is_known "$name"; then
        update
        break
    fi
done
if [[ " $* " == *" mosquitto "* ]]; then hold_mosquitto; fi
# Lists that are weeks old name versions that the mirror no longer has.
install "$@" || { update && install "$@"; }
if [[ " $* " == *" mosquitto "* ]] && command -v systemctl >/dev/null; then
    systemctl disable --now mosquitto.service || true
fi
