#!/bin/bash
# installer-gather.sh [--id ID]: collects what tells why a bootstrap failed into ~/log-bundle-ID.tar.gz; no secrets.
set -uo pipefail
id=bootstrap
[[ ${1:-} == --id ]] && id="${2:?--id needs a value}"
top="$(mktemp -d)"
trap 'rm -rf "$top"' EXIT
out="$top/log-bundle-$id"
mkdir -p "$out"/{unit-status,bootstrap/{services,journals,network,containers},rendered-assets,resources}
exec > >(tee "$out/gather.log") 2>&1
systemctl list-units --state=failed --no-legend >"$out/failed-units.txt"
for unit in bootkube progress approve-csr kubelet containerd; do
    systemctl status --no-pager "$unit" >"$out/unit-status/$unit.txt" 2>&1
    journalctl --no-pager --unit "$unit" >"$out/bootstrap/journals/$unit.log"
done
cp /var/log/openshift/*.json "$out/bootstrap/services/" 2>/dev/null
ip -j addr >"$out/bootstrap/network/ip-addr.json"
ip -j route >"$out/bootstrap/network/ip-route.json"
for name in etcd kube-apiserver cluster-bootstrap; do
    podman logs --tail 2000 "$name" >"$out/bootstrap/containers/$name.log" 2>&1
done
[[ -d /opt/openshift/manifests ]] && (
    cd /opt/openshift/manifests || exit
    for file in *; do
        grep -q '^kind: Secret' "$file" || cp "$file" "$out/rendered-assets/"
    done
)
tar -C "$top" -czf "$HOME/log-bundle-$id.tar.gz" "log-bundle-$id"
echo "Log bundle written to $HOME/log-bundle-$id.tar.gz"
