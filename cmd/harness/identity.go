package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/hearthdev/hearth/challenge"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/endpoint"
)

// minKeyBytes is the shortest key accepted for port 4000; minOlderKeyBytes is that of the older platform's key, whose length is not
// ours to say, but which nobody shall guess.
const (
	minKeyBytes      = challenge.MinRootBytes
	minOlderKeyBytes = 16
)

// credentials are what a delivery listener needs: who this Pod is, and the keys made of its root secret.
type credentials struct {
	identity wire.Identity
	keys     challenge.Keys
}

// identify reads the credentials from the environment (R25; SPEC.md, Identity). Without a root secret there are none and
// delivery is off.
func identify(environ []string, hostname func() (string, error)) (*credentials, error) {
	token, given := lookup(environ, envToken)
	if !given {
		return nil, nil //nolint:nilnil // no delivery is no error
	}
	var c credentials
	for name, into := range map[string]*string{"POD_NAMESPACE": &c.identity.Namespace, "POD_NAME": &c.identity.PodName, "POD_UID": &c.identity.PodUID} {
		if *into, _ = lookup(environ, name); *into == "" {
			return nil, fmt.Errorf("%s: expected this Pod's, from the downward API, because %s is set", name, envToken)
		}
	}
	host, err := hostname()
	if err != nil {
		return nil, fmt.Errorf("hostname: %w", err)
	}
	if want := wire.Hostname(c.identity.PodName); host != want {
		return nil, fmt.Errorf("hostname: expected %q, which kubelet derives from POD_NAME, got %q: the Pod must not set a hostname or use the host's network", want, host)
	}
	if c.keys, err = challenge.Derive([]byte(token), c.identity.PodUID); err != nil {
		return nil, fmt.Errorf("%s: %w", envToken, err)
	}
	return &c, nil
}

// peoplesKeys reads the keys of port 4000. A key that is not given opens nothing.
func peoplesKeys(environ []string) (endpoint.Keys, error) {
	var k endpoint.Keys
	for _, v := range []struct {
		name  string
		into  *string
		least int
	}{{envView, &k.View, minKeyBytes}, {envSteer, &k.Steer, minKeyBytes}, {envOlderSteer, &k.OlderSteer, minOlderKeyBytes}} {
		var given bool
		if *v.into, given = lookup(environ, v.name); given && len(*v.into) < v.least {
			return endpoint.Keys{}, fmt.Errorf("%s: expected at least %d bytes, got %d", v.name, v.least, len(*v.into))
		}
	}
	for name, steer := range map[string]string{envSteer: k.Steer, envOlderSteer: k.OlderSteer} {
		if k.View != "" && k.View == steer {
			return endpoint.Keys{}, fmt.Errorf("%s: expected another key than %s, or who may watch may steer", envView, name)
		}
	}
	return k, nil
}

func lookup(environ []string, name string) (string, bool) {
	for _, pair := range environ {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// hostname is this process's UTS name.
func hostname() (string, error) { return os.Hostname() }
