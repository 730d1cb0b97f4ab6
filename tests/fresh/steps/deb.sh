apt-get -o Dpkg::Use-Pty=0 update
apt-get install -y --no-install-recommends /srv/fresh/tidegate.deb
tidegate check /etc/tidegate/config.toml
bash -l /srv/fresh/gateway.sh
# As its service runs it; there is no systemd here that would.
apt-get install -y --no-install-recommends mosquitto
mosquitto -d -p 1883
install -d -o tidegate -m 0700 /var/lib/tidegate
setpriv --reuid tidegate --regid tidegate --init-groups tidegate run >~/gateway.log 2>&1 &
gateway=$!
trap 'cat ~/gateway.log' EXIT
for _ in $(seq 100); do
    if tidegate status >/dev/null 2>&1; then break; fi
    sleep 0.3
done
tidegate status
tidegate simulate --sensors 3 --qos 1,2 --interval 1 --seconds 5
for part in configuration clock disk files listeners broker gateway; do
    echo "doctor --only $part"
    tidegate doctor --only $part
done
kill $gateway
wait $gateway
