#!/usr/bin/env bash
# Fails when what we ship calls code with a known vulnerability. Where the database cannot be reached it says so, and does not fail.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
database=${GOVULNDB:-https://vuln.go.dev}
if [[ $database != file://* ]] && ! why=$(curl -fsS --connect-timeout 5 --max-time 10 -o /dev/null "$database/index/db.json" 2>&1); then
  echo "verify: vulnerabilities were not checked: $database cannot be reached from here (${why##*curl: })"
  exit 0
fi
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN=$bin go install golang.org/x/vuln/cmd/govulncheck@v1.9.0 # go run would hide its exit code
code=0
"$bin/govulncheck" -db "$database" ./... || code=$?
case $code in
  0) ;;
  3) echo "verify: the vulnerabilities above are in code that is called" >&2; exit 1 ;;
  *) echo "verify: govulncheck did not finish (exit $code); that is no finding, and no check either" >&2; exit 1 ;;
esac
