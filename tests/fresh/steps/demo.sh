# From the first command to the first reading that arrived at the broker.
cd ~/tidegate
first= last=
while IFS= read -r line; do
    last=$line
    echo "$line"
    if [[ -z $first && $line == *"  up  "* ]]; then
        first=$SECONDS
        echo "(after $first s)"
    fi
done < <(
    make demo ARGS="--seconds 15" 2>&1
    echo "exit code $?"
)
[[ $last == "exit code 0" && -n $first ]]
echo "=> first reading after $first s"
if [[ -n ${FIRST_READING_S_MAX:-} ]]; then ((first <= FIRST_READING_S_MAX)); fi
