package connect

import (
	"github.com/hearthdev/hearth/cli/forward"
	"github.com/hearthdev/hearth/cli/kube"
)

// inKubernetes reads agent/NAME or run/NAME.
func inKubernetes(target string, env *kube.Env, watch bool, say func(string, ...any)) (*forward.Target, error) {
	access := forward.Best
	if watch {
		access = forward.Watch
	}
	t, err := forward.NewTarget(target, access)
	if err != nil {
		return nil, kube.Usage("%w", err)
	}
	if t.Cluster, err = forward.In(env, say); err != nil {
		return nil, err
	}
	return t, nil
}
