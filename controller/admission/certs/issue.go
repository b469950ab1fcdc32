// Package certs gives the webhook server its certificate and the API server the authority to trust it.
//
// It is our own and not a library's because every library at hand watches all Secrets of the namespace and all webhook
// configurations of the cluster, and waits a minute for kubelet to bring the Secret into a volume. This one needs get and update
// on one Secret and two configurations by name, serves from memory, and so works in the second in which it starts.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	servingLife   = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is replaced.
	renewBefore = 90 * 24 * time.Hour
	// backdated allows for clocks that are behind ours.
	backdated  = time.Hour
	serialBits = 120

	typeCertificate = "CERTIFICATE"
	typeKey         = "PRIVATE KEY"
)

// The keys of the Secret.
const (
	keyAuthority    = "ca.crt" // all authorities to trust, the newest first
	keyAuthorityKey = "ca.key"
	keyServing      = "tls.crt"
	keyServingKey   = "tls.key"
)

// pair is a certificate and its key.
type pair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// renew returns the Secret's data as it should be, and whether that differs from what it is: a serving certificate for the names,
// signed by an authority that outlives it. A replaced authority stays trusted until it ends, so that replicas which still serve
// the old certificate are believed.
func renew(data map[string][]byte, names []string, now time.Time) (map[string][]byte, bool, error) {
	authority, err := parsePair(data[keyAuthority], data[keyAuthorityKey])
	renewed := err != nil || authority.certificate.NotAfter.Before(now.Add(servingLife+renewBefore))
	trusted := data[keyAuthority]
	if renewed {
		if authority, err = issue(nil, nil, now); err != nil {
			return nil, false, err
		}
		trusted = append(encode(typeCertificate, authority.certificate.Raw), stillTrusted(trusted, now)...)
	}
	serving, err := parsePair(data[keyServing], data[keyServingKey])
	if err == nil && !renewed && serves(serving.certificate, authority.certificate, names, now) {
		return data, false, nil
	}
	if serving, err = issue(authority, names, now); err != nil {
		return nil, false, err
	}
	fresh := map[string][]byte{keyAuthority: trusted, keyServing: encode(typeCertificate, serving.certificate.Raw)}
	for name, key := range map[string]*ecdsa.PrivateKey{keyAuthorityKey: authority.key, keyServingKey: serving.key} {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, false, fmt.Errorf("encode %s: %w", name, err)
		}
		fresh[name] = encode(typeKey, der)
	}
	return fresh, true, nil
}

func serves(c, authority *x509.Certificate, names []string, now time.Time) bool {
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	for _, name := range names {
		if _, err := c.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now.Add(renewBefore)}); err != nil {
			return false
		}
	}
	return true
}

// issue makes a serving certificate signed by the authority, or an authority when that is nil.
func issue(authority *pair, names []string, now time.Time) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: now.Add(-backdated), BasicConstraintsValid: true,
		Subject: pkix.Name{CommonName: "hearth webhook authority"}, NotAfter: now.Add(authorityLife), IsCA: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	signer := pair{certificate: template, key: key}
	if authority != nil {
		template.Subject, template.NotAfter, template.IsCA = pkix.Name{CommonName: names[0]}, now.Add(servingLife), false
		template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		template.DNSNames, signer = names, *authority
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.certificate, &key.PublicKey, signer.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the signed certificate: %w", err)
	}
	return &pair{certificate: certificate, key: key}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

var errNoPEM = errors.New("expected a PEM block")

// parsePair reads the first certificate and its key.
func parsePair(certificatePEM, keyPEM []byte) (*pair, error) {
	c, _ := pem.Decode(certificatePEM)
	k, _ := pem.Decode(keyPEM)
	if c == nil || k == nil {
		return nil, errNoPEM
	}
	certificate, err := x509.ParseCertificate(c.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(k.Bytes)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, errors.New("key: expected the certificate's own ECDSA key")
	}
	return &pair{certificate: certificate, key: key}, nil
}

// stillTrusted are the authorities of a bundle that have not ended.
func stillTrusted(bundle []byte, now time.Time) []byte {
	var kept []byte
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(c.NotAfter) {
			kept = append(kept, encode(typeCertificate, block.Bytes)...)
		}
	}
	return kept
}
