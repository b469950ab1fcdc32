package node

import (
	"archive/tar"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// written makes a place with configuration and credentials in it.
func written(t *testing.T) Place {
	t.Helper()
	place := Place{dir: filepath.Join(t.TempDir(), "c")}
	require.NoError(t, place.writeConfiguration())
	require.NoError(t, place.writeCredentials(now))
	return place
}

func load(t *testing.T, p Place, name string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(p.pki(name+".crt"), p.pki(name+".key"))
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	return cert
}

func TestServingCertificatesHoldUnderTheirNames(t *testing.T) {
	p := written(t)
	roots, err := p.roots("ca.crt")
	require.NoError(t, err)
	for name, hosts := range map[string][]string{
		"apiserver": {"kubernetes.default.svc", "10.96.0.1", "10.77.0.1", "127.0.0.1"},
		"kubelet":   {"node1", "10.77.0.1"},
		"health":    {"127.0.0.1"},
	} {
		for _, host := range hosts {
			_, err := load(t, p, name).Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now.Add(time.Hour)})
			require.NoError(t, err, "%s as %s", name, host)
		}
	}
}

func TestClusterCertificatesDoNotOpenEtcd(t *testing.T) {
	p := written(t)
	etcd, err := p.roots("etcd-ca.crt")
	require.NoError(t, err)
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	_, err = load(t, p, "admin").Verify(x509.VerifyOptions{Roots: etcd, CurrentTime: now, KeyUsages: usages})
	require.Error(t, err)
	_, err = load(t, p, "apiserver-etcd").Verify(x509.VerifyOptions{Roots: etcd, CurrentTime: now, KeyUsages: usages})
	require.NoError(t, err)
}

func TestCertificatesSayWhoTheyAreFor(t *testing.T) {
	p := written(t)
	admin := load(t, p, "admin")
	assert.Equal(t, []string{"system:masters"}, admin.Subject.Organization)
	assert.Equal(t, subject{name: "system:node:node1", group: "system:nodes"}, clients["kubelet"], "the Node authorizer goes by these")
	assert.Equal(t, "kube-apiserver-kubelet-client", load(t, p, "apiserver-kubelet").Subject.CommonName, "rbac.yaml binds this name")
	assert.Empty(t, load(t, p, "apiserver-kubelet").DNSNames)
	assert.NotContains(t, admin.ExtKeyUsage, x509.ExtKeyUsageServerAuth, "a client cannot pose as a server")
}

func TestSecretsAreForTheirOwnerOnlyAndTheAuthorityKeysNowhere(t *testing.T) {
	p := written(t)
	assert.NoFileExists(t, p.pki("ca.key"))
	assert.NoFileExists(t, p.pki("etcd-ca.key"))
	require.NoError(t, filepath.WalkDir(p.dir, func(path string, entry os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		assert.Zero(t, info.Mode().Perm()&0o077, path)
		return nil
	}))
}

func TestTemplatesRenderCompletely(t *testing.T) {
	p := written(t)
	for _, name := range []string{"containerd.toml", "cni/10-hearth.conflist", "kubelet.yaml", "Corefile", "nat.nft"} {
		content, err := os.ReadFile(p.path(name))
		require.NoError(t, err)
		assert.NotContains(t, string(content), "{{", name)
		assert.NotContains(t, string(content), "<no value>", name)
	}
	conflist, err := os.ReadFile(p.path("cni/10-hearth.conflist"))
	require.NoError(t, err)
	assert.True(t, json.Valid(conflist))
}

func TestImagesNameTheirParts(t *testing.T) {
	image, err := Image(pauseImage, "pause", []byte("ELF"))
	require.NoError(t, err)
	found := map[string][]byte{}
	for reader := tar.NewReader(bytes.NewReader(image)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		found[header.Name], err = io.ReadAll(reader)
		require.NoError(t, err)
	}
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	require.NoError(t, json.Unmarshal(found["manifest.json"], &manifest))
	require.Len(t, manifest, 1)
	assert.Equal(t, []string{pauseImage}, manifest[0].RepoTags)
	assert.Contains(t, found, manifest[0].Config)
	assert.Equal(t, digest(found[manifest[0].Layers[0]])+".tar", manifest[0].Layers[0])
	assert.Contains(t, string(found[manifest[0].Config]), digest(found[manifest[0].Layers[0]]))
}
