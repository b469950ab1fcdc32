package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"time"
)

// Users of the API server that have no bootstrap role; rbac.yaml binds them.
const (
	coreDNSUser      = "hearth:coredns"
	kubeletAccess    = "kube-apiserver-kubelet-client"
	administrators   = "system:masters"
	nodes            = "system:nodes"
	nodeUserPrefix   = "system:node:"
	controllersUser  = "system:kube-controller-manager"
	schedulerUser    = "system:kube-scheduler"
	proxyUser        = "system:kube-proxy"
	serverURL        = "https://" + NodeAddress + ":" + apiPort
	kubeconfigFormat = `apiVersion: v1
kind: Config
clusters:
- name: hearth
  cluster: {server: %q, certificate-authority-data: %q}
users:
- name: %[3]q
  user: {client-certificate-data: %[4]q, client-key-data: %[5]q}
contexts:
- name: hearth
  context: {cluster: hearth, user: %[3]q}
current-context: hearth
`
)

// certificates are the ones read from files. The etcd ones have an authority of their own: etcd knows no roles, so
// that any certificate it accepts may do anything.
var certificates = map[string]subject{
	"apiserver": {name: "kube-apiserver", hosts: []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		"localhost", NodeName, apiService, NodeAddress, loopback,
	}},
	"apiserver-kubelet": {name: kubeletAccess},
	"admin":             {name: "admin", group: administrators},
	"kubelet":           {name: NodeName, hosts: []string{NodeName, NodeAddress}},
	"health":            {name: "health", hosts: []string{loopback}},
}

var etcdCertificates = map[string]subject{
	"etcd":           {name: "etcd", hosts: []string{"localhost", loopback}},
	"apiserver-etcd": {name: "kube-apiserver"},
}

// clients get a kubeconfig each.
var clients = map[string]subject{
	"admin":                   {name: "admin", group: administrators},
	"kubelet":                 {name: nodeUserPrefix + NodeName, group: nodes},
	"kube-controller-manager": {name: controllersUser},
	"kube-scheduler":          {name: schedulerUser},
	"kube-proxy":              {name: proxyUser},
	"coredns":                 {name: coreDNSUser},
}

// writeCredentials makes both authorities, every certificate, the service account key and the kubeconfigs.
func (p Place) writeCredentials(now time.Time) error {
	cluster, err := newAuthority("hearth-cluster", now)
	if err != nil {
		return err
	}
	etcd, err := newAuthority("hearth-etcd", now)
	if err != nil {
		return err
	}
	if err := p.writeCertificates("ca", cluster, certificates, now); err != nil {
		return err
	}
	if err := p.writeCertificates("etcd-ca", etcd, etcdCertificates, now); err != nil {
		return err
	}
	for component, who := range clients {
		if err := p.writeKubeconfig(component, cluster, who, now); err != nil {
			return err
		}
	}
	return p.writeServiceAccountKey()
}

func (p Place) writeCertificates(name string, ca *authority, subjects map[string]subject, now time.Time) error {
	if err := writeSecret(p.pki(name+".crt"), ca.pem()); err != nil {
		return err
	}
	for file, who := range subjects {
		cert, key, err := ca.issue(who, now)
		if err != nil {
			return err
		}
		if err := writeSecret(p.pki(file+".crt"), cert); err != nil {
			return err
		}
		if err := writeSecret(p.pki(file+".key"), key); err != nil {
			return err
		}
	}
	return nil
}

func (p Place) writeKubeconfig(component string, ca *authority, who subject, now time.Time) error {
	cert, key, err := ca.issue(who, now)
	if err != nil {
		return err
	}
	encode := base64.StdEncoding.EncodeToString
	content := fmt.Sprintf(kubeconfigFormat, serverURL, encode(ca.pem()), who.name, encode(cert), encode(key))
	if component == "admin" {
		return writeSecret(p.Kubeconfig(), []byte(content))
	}
	return writeSecret(p.kubeconfigOf(component), []byte(content))
}

func (p Place) writeServiceAccountKey() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the service account key: %w", err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode the service account key: %w", err)
	}
	if err := writeSecret(p.pki("sa.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})); err != nil {
		return err
	}
	return writeSecret(p.pki("sa.key"), private)
}
