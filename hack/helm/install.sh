#!/usr/bin/env bash
# Builds helm from its Go module into the cache and prints its path; a second call only prints. With the argument 3 it builds the version before.
set -euo pipefail
major=${1:-4}
case $major in
4) package=helm.sh/helm/v4/cmd/helm version=v4.3.1 ;;
3) package=helm.sh/helm/v3/cmd/helm version=v3.22.0 ;;
*) echo "usage: install.sh [4|3]" >&2; exit 2 ;;
esac
dir="${XDG_CACHE_HOME:-$HOME/.cache}/hearth/helm-$version"
if [ -x "$dir/helm" ]; then echo "$dir/helm"; exit; fi

mkdir -p "$(dirname "$dir")"
exec 9>"$dir.lock"
flock 9
if [ -x "$dir/helm" ]; then echo "$dir/helm"; exit; fi
tmp=$(mktemp -d "$dir.tmp.XXXXXX")
go_pid=
trap 'if [ -n "$go_pid" ]; then kill "$go_pid" 2>/dev/null || true; fi; rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
start=$SECONDS
(cd "$tmp" && GOBIN="$tmp" GOWORK=off GOFLAGS=-trimpath CGO_ENABLED=0 exec go install -ldflags '-s -w' "$package@$version") >"$tmp/log" 2>&1 9>&- &
go_pid=$!
while kill -0 "$go_pid" 2>/dev/null; do
  [ $(((SECONDS - start) % 10)) -ne 0 ] || echo "helm: building $version ($((SECONDS - start)) s)" >&2
  sleep 1
done
wait "$go_pid" || { cat "$tmp/log" >&2; echo "helm: go install $package@$version failed after $((SECONDS - start)) s, its messages are above" >&2; exit 1; }
go_pid=
chmod 755 "$tmp"
mv -T "$tmp" "$dir"
echo "helm: built $version in $((SECONDS - start)) s" >&2
echo "$dir/helm"
