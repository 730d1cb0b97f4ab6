cd ~/tidegate
if make demo >/tmp/asked 2>&1; then
    echo "nothing had to be installed"
    exit 1
fi
cat /tmp/asked
sed -n "s/^ *su -c '\(.*\)'$/\1/p" /tmp/asked >/tmp/printed
chmod a+r /tmp/printed
test -s /tmp/printed
echo "=> $(sed 's/.*recommends //' /tmp/printed)"
