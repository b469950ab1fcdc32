// Package deliver carries delivered runs out: thin shells around package delivery (SPEC.md, Lifecycle).
//
//	assign   one key per Agent: waiting runs to targets, one locked write each, then straight to the Link
//	run      one key per run: observe once, decide once, act, one status write; also the orphaned attempts of that name
//	pods     one key per Pod: opens and closes the Links
//
// Nothing here waits for a harness: the Links work in the background and wake the reconcilers when something changed.
package deliver

// +kubebuilder:rbac:groups=hearth.dev,resources=agents,verbs=get;list;watch
// +kubebuilder:rbac:groups=hearth.dev,resources=agentruns,verbs=get;list;watch
// +kubebuilder:rbac:groups=hearth.dev,resources=agentruns/status,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
