// Package forward reaches the ports of Pods through the API server's port-forward, with the keys that a person may read (R50). It opens
// no port on this machine.
package forward

import "github.com/hearthdev/hearth/cli/kube"

// Final is an error that trying again does not cure.
type Final struct{ error }

// Finally makes an error final.
func Finally(err error) error { return Final{err} }

func (f Final) Unwrap() error { return f.error }

// In is the namespace that the flags of a command name.
func In(env *kube.Env, say func(format string, args ...any)) (Cluster, error) {
	config, err := env.Config()
	if err != nil {
		return Cluster{}, err
	}
	namespace, err := env.Namespace()
	if err != nil {
		return Cluster{}, err
	}
	c, err := env.Client()
	if err != nil {
		return Cluster{}, err
	}
	return Cluster{Namespace: namespace, Config: config, Client: c, Say: say}, nil
}
