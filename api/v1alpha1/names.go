package v1alpha1

import "k8s.io/apimachinery/pkg/types"

// uidPrefix is how much of a run's UID goes into its Secret's name: enough to tell two runs of one name apart.
const uidPrefix = 8

// RunSecretName is the name of the Secret of a run with a Pod of its own: <run>-<first 8 of its UID>-harness (SPEC.md, Resources).
func RunSecretName(run string, uid types.UID) string {
	return run + "-" + string(uid[:min(uidPrefix, len(uid))]) + "-harness"
}

// KeySecretNames are the names of an Agent's Secrets for people (SPEC.md, Resources). They stay the same for the Agent's life, so
// that RBAC can name them.
func KeySecretNames(agent string) (view, steer string) {
	return agent + "-acp-view", agent + "-acp-steer"
}
