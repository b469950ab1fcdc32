package node

import "path/filepath"

// Binaries are the folders that build.Builder made.
type Binaries struct{ Kube, CoreDNS, Pause string }

// component is one program of the node, in the order of starting.
type component struct {
	name    string
	path    string
	args    []string
	listens []string // host:port, checked before anything is started
	probe   probe    // answers once the component serves
}

// Endpoints of the parts, all on loopback or the bridge.
const (
	etcdClient      = loopback + ":12379"
	etcdPeer        = loopback + ":12380"
	apiEndpoint     = NodeAddress + ":" + apiPort
	kubeletEndpoint = NodeAddress + ":10250"
	kubeletHealth   = loopback + ":10248"
	managerHealth   = loopback + ":10257"
	schedulerHealth = loopback + ":10259"
	proxyHealth     = loopback + ":10256"
	proxyMetrics    = loopback + ":10249"
	dnsEndpoint     = NodeAddress + ":53"
	dnsHealth       = loopback + ":18181"
)

// The audit log is at most so many files of so many megabytes, and the one that is written.
const (
	auditMegabytes = "64"
	auditBackups   = "3"
)

// storage is what the API server needs, and containerd, which needs nothing.
func (p Place) storage(b Binaries) []component {
	return []component{{
		name: "etcd", path: filepath.Join(b.Kube, "etcd"),
		args: []string{
			"--name=" + NodeName, "--data-dir=" + p.path("etcd"),
			"--listen-client-urls=https://" + etcdClient, "--advertise-client-urls=https://" + etcdClient,
			"--listen-peer-urls=https://" + etcdPeer, "--initial-advertise-peer-urls=https://" + etcdPeer,
			"--initial-cluster=" + NodeName + "=https://" + etcdPeer,
			"--cert-file=" + p.pki("etcd.crt"), "--key-file=" + p.pki("etcd.key"),
			"--trusted-ca-file=" + p.pki("etcd-ca.crt"), "--client-cert-auth=true",
			"--peer-cert-file=" + p.pki("etcd.crt"), "--peer-key-file=" + p.pki("etcd.key"),
			"--peer-trusted-ca-file=" + p.pki("etcd-ca.crt"), "--peer-client-cert-auth=true",
			"--unsafe-no-fsync=true", // the data is worth nothing after the machine went down
		},
		listens: []string{etcdClient, etcdPeer},
		probe:   p.etcdProbe("https://" + etcdClient + "/health"),
	}, {
		name: "containerd", path: "containerd",
		args:  []string{"--config=" + p.path("containerd.toml")},
		probe: socketProbe(p.socket()),
	}}
}

func (p Place) apiserver(b Binaries) component {
	return component{
		name: "kube-apiserver", path: filepath.Join(b.Kube, "kube-apiserver"),
		args: []string{
			"--etcd-servers=https://" + etcdClient, "--etcd-cafile=" + p.pki("etcd-ca.crt"),
			"--etcd-certfile=" + p.pki("apiserver-etcd.crt"), "--etcd-keyfile=" + p.pki("apiserver-etcd.key"),
			// Only the bridge: Pods need it, and kubernetes.default.svc points to it.
			"--bind-address=" + NodeAddress, "--advertise-address=" + NodeAddress, "--secure-port=" + apiPort,
			"--tls-cert-file=" + p.pki("apiserver.crt"), "--tls-private-key-file=" + p.pki("apiserver.key"),
			"--client-ca-file=" + p.pki("ca.crt"), "--cert-dir=" + p.path("apiserver"),
			"--kubelet-certificate-authority=" + p.pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
			"--kubelet-client-certificate=" + p.pki("apiserver-kubelet.crt"), "--kubelet-client-key=" + p.pki("apiserver-kubelet.key"),
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + p.pki("sa.pub"), "--service-account-signing-key-file=" + p.pki("sa.key"),
			"--service-cluster-ip-range=" + Services,
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
			"--audit-policy-file=" + p.path("audit.yaml"), "--audit-log-path=" + p.Log("audit"),
			"--audit-log-maxsize=" + auditMegabytes, "--audit-log-maxbackup=" + auditBackups,
			// Webhook Services are reached by endpoint, without waiting for kube-proxy.
			"--enable-aggregator-routing=true",
		},
		listens: []string{apiEndpoint},
		probe:   p.apiProbe("/readyz"),
	}
}

// workers are everything that needs the API server.
func (p Place) workers(b Binaries) []component {
	health := []string{"--tls-cert-file=" + p.pki("health.crt"), "--tls-private-key-file=" + p.pki("health.key")}
	return []component{{
		name: "kubelet", path: filepath.Join(b.Kube, "kubelet"),
		args: []string{
			"--config=" + p.path("kubelet.yaml"), "--kubeconfig=" + p.kubeconfigOf("kubelet"), "--root-dir=" + p.path("kubelet"),
			"--hostname-override=" + NodeName, "--node-ip=" + NodeAddress,
		},
		listens: []string{kubeletEndpoint, kubeletHealth},
		probe:   webProbe("http://" + kubeletHealth + "/healthz"),
	}, {
		name: "kube-controller-manager", path: filepath.Join(b.Kube, "kube-controller-manager"),
		args: append([]string{
			"--kubeconfig=" + p.kubeconfigOf("kube-controller-manager"), "--bind-address=" + loopback, "--leader-elect=false",
			"--root-ca-file=" + p.pki("ca.crt"), "--service-account-private-key-file=" + p.pki("sa.key"),
			"--use-service-account-credentials=true",
		}, health...),
		listens: []string{managerHealth},
		probe:   p.clusterProbe("https://" + managerHealth + "/healthz"),
	}, {
		name: "kube-scheduler", path: filepath.Join(b.Kube, "kube-scheduler"),
		args: append([]string{
			"--kubeconfig=" + p.kubeconfigOf("kube-scheduler"), "--bind-address=" + loopback, "--leader-elect=false",
		}, health...),
		listens: []string{schedulerHealth},
		probe:   p.clusterProbe("https://" + schedulerHealth + "/healthz"),
	}, {
		name: "kube-proxy", path: filepath.Join(b.Kube, "kube-proxy"),
		args: []string{
			"--kubeconfig=" + p.kubeconfigOf("kube-proxy"), "--proxy-mode=nftables", "--hostname-override=" + NodeName,
			"--cluster-cidr=" + PodSubnet, "--healthz-bind-address=" + proxyHealth, "--metrics-bind-address=" + proxyMetrics,
			"--oom-score-adj=0",
			// The machine's connection tracking limits stay as they are.
			"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
		},
		listens: []string{proxyHealth, proxyMetrics},
		probe:   webProbe("http://" + proxyHealth + "/healthz"),
	}, {
		name: "coredns", path: filepath.Join(b.CoreDNS, "coredns"),
		args:    []string{"-conf=" + p.path("Corefile")},
		listens: []string{dnsEndpoint, dnsHealth},
		probe:   webProbe("http://" + dnsHealth + "/ready"),
	}}
}

// components is all of them, in the order of starting.
func (p Place) components(b Binaries) []component {
	all := append(p.storage(b), p.apiserver(b))
	return append(all, p.workers(b)...)
}
