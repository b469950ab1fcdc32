package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	probeTimeout  = 3 * time.Second
	probeBodySize = 1 << 20
)

// probe returns nil once its component serves. Credentials are read at the time of asking.
type probe func(ctx context.Context) error

func socketProbe(path string) probe {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{Timeout: probeTimeout}).DialContext(ctx, "unix", path)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

func webProbe(url string) probe {
	return func(ctx context.Context) error {
		_, err := get(ctx, &tls.Config{MinVersion: tls.VersionTLS12}, url)
		return err
	}
}

// etcdProbe authenticates with the API server's certificate for etcd.
func (p Place) etcdProbe(url string) probe {
	return func(ctx context.Context) error {
		pair, err := tls.LoadX509KeyPair(p.pki("apiserver-etcd.crt"), p.pki("apiserver-etcd.key"))
		if err != nil {
			return err
		}
		return p.trusting(ctx, "etcd-ca.crt", url, pair)
	}
}

// clusterProbe asks without authenticating.
func (p Place) clusterProbe(url string) probe {
	return func(ctx context.Context) error { return p.trusting(ctx, "ca.crt", url) }
}

func (p Place) trusting(ctx context.Context, ca, url string, pairs ...tls.Certificate) error {
	roots, err := p.roots(ca)
	if err != nil {
		return err
	}
	_, err = get(ctx, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: pairs}, url)
	return err
}

func (p Place) roots(ca string) (*x509.CertPool, error) {
	content, err := os.ReadFile(p.pki(ca))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s holds no certificate", p.pki(ca))
	}
	return pool, nil
}

func (p Place) apiProbe(path string) probe {
	return func(ctx context.Context) error {
		_, err := p.apiGet(ctx, path)
		return err
	}
}

// apiGet asks the API server as the administrator.
func (p Place) apiGet(ctx context.Context, path string) ([]byte, error) {
	pair, err := tls.LoadX509KeyPair(p.pki("admin.crt"), p.pki("admin.key"))
	if err != nil {
		return nil, err
	}
	roots, err := p.roots("ca.crt")
	if err != nil {
		return nil, err
	}
	return get(ctx, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}, serverURL+path)
}

// nodeReady is nil once Pods can be created: the node is Ready and the default service account exists.
func (p Place) nodeReady(ctx context.Context) error {
	body, err := p.apiGet(ctx, "/api/v1/nodes/"+NodeName)
	if err != nil {
		return err
	}
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := json.Unmarshal(body, &node); err != nil {
		return fmt.Errorf("read the node: %w", err)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type != "Ready" {
			continue
		}
		if condition.Status != "True" {
			return fmt.Errorf("node %s is not Ready: %s", NodeName, condition.Message)
		}
		_, err := p.apiGet(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
		return err
	}
	return fmt.Errorf("node %s has no Ready condition", NodeName)
}

// get asks a health endpoint over a connection of its own, past any proxy.
func get(ctx context.Context, config *tls.Config, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, probeBodySize))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", url, response.Status)
	}
	return body, nil
}
