package v1alpha1

// KeySecretNames are the names of an Agent's Secrets for people (SPEC.md, Resources). They stay the same for the Agent's life, so
// that RBAC can name them.
func KeySecretNames(agent string) (view, steer string) {
	return agent + "-acp-view", agent + "-acp-steer"
}
