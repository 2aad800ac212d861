# The gate of a release: gate.sh URL FOLDER [OPTION]... prints "released" behind a table that is good enough.
set -eu -o pipefail
url=$1 folder=$2
shift 2
agui evaluate "$(dirname "$0")/scenarios.yaml" "$url" --at-least 0.9 --journal "$folder/today.jsonl" \
  --junit "$folder/junit.xml" --json "$folder/report.json" --html "$folder/page.html" --keep "$folder/kept" "$@" |
  tee "$folder/table.txt"
echo released
