cd ~/tidegate
if make demo >~/asked 2>&1; then
    echo "nothing had to be installed"
    exit 1
fi
cat ~/asked
sed -n "s/^ *su -c '\(.*\)'$/\1/p" ~/asked >~/printed
test -s ~/printed
echo "=> $(sed 's/.*recommends //' ~/printed)"
