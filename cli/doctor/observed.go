package doctor

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// Read is one thing that was looked at: its value, that it is not there, or why it could not be read.
type Read[T any] struct {
	Value  T
	Absent bool
	Why    string // not empty: it could not be read
}

// Got is a thing that was read.
func Got[T any](v T) Read[T] { return Read[T]{Value: v} }

// There tells whether it was read and is there.
func (r Read[T]) There() bool { return r.Why == "" && !r.Absent }

// Observed is all that was looked at, once. Secrets are in it by their lengths only.
type Observed struct {
	// Now is the API server's clock.
	Now               time.Time
	Namespace, System string
	// CLI is this program's version.
	CLI    string
	API    API
	Kinds  Read[[]string]          // the resources that hearth.dev/v1alpha1 serves
	CRDs   map[string]Read[CRD]    // by resource; looked at where a kind is missing
	Fields map[string]Read[Schema] // by kind

	Deployments Read[[]appsv1.Deployment]
	SystemPods  Read[[]corev1.Pod]
	Tails       map[string]string // the ends of the logs of containers that ended, by Pod
	Lease       Read[coordinationv1.Lease]
	Leases      Read[[]coordinationv1.Lease] // of all controllers, where they may be listed

	Webhooks    []Webhooks
	Service     Read[corev1.Service]
	Slices      Read[[]discoveryv1.EndpointSlice]
	Certificate Read[[]byte] // PEM
	Admission   Admission

	ControllerUser string
	ControllerMay  Read[[]Right]
	YouMay         Read[[]Right]

	// Wanted is the Agent asked for; empty for all of the namespace.
	Wanted  string
	Agents  Read[[]AgentSeen]
	Runs    Read[[]hearthv1.AgentRun] // without goals and outputs
	MoreRun bool                      // there are more than were read
}

// API is the API server.
type API struct {
	Host, Version string
	Major, Minor  int
	Why           string
}

// CRD is what is stored of a CustomResourceDefinition's state.
type CRD struct {
	Established bool
	Says        string // of the condition that is not as it should be
}

// Schema is an OpenAPI schema, as JSON is decoded into maps.
type Schema map[string]any

// Webhooks is one of the two webhook configurations.
type Webhooks struct {
	Kind string
	Read Read[[]Hook]
}

// Hook is one webhook of a configuration.
type Hook struct {
	Name       string
	FailClosed bool
	Bundle     []byte
	Service    string // namespace/name
}

// Answer is what a dry run of a create came to.
type Answer string

// The answers.
const (
	AdmissionAnswers     Answer = "answers"   // it refused a run for an Agent that does not exist, with our code
	AdmissionNotServed   Answer = "notServed" // it refused the namespace
	AdmissionLets        Answer = "lets"      // nobody refused
	AdmissionNotCalled   Answer = "notCalled" // the API server could not call it
	AdmissionNotReached  Answer = "notReached"
	AdmissionNotPossible Answer = ""
)

// Admission is what came of a dry run.
type Admission struct {
	Answer Answer
	Words  string
}

// Right is one thing that somebody may do or not.
type Right struct {
	Verb, Group, Resource, Subresource, Name, Namespace string
	// For says what it is for; Role is what gives it.
	For, Role string
	Allowed   bool
}

// String is the right as kubectl auth can-i takes it.
func (r Right) String() string {
	s := r.Verb + " " + r.Resource
	if r.Group != "" {
		s += "." + r.Group
	}
	if r.Subresource != "" {
		s += "/" + r.Subresource
	}
	if r.Name != "" {
		s += " " + r.Name
	}
	return s
}

// AgentSeen is an Agent and what stands for it.
type AgentSeen struct {
	Name     string
	Agent    Read[hearthv1.Agent]
	Sandbox  Read[bool] // whether the API server has the kind; of backend Sandbox only
	Keys     map[string]Read[int]
	Pods     []PodSeen
	Policies Read[[]networkingv1.NetworkPolicy]
	// SystemLabels are those of the controller's namespace, and of its Pods.
	SystemLabels, ControllerLabels map[string]string
}

// PodSeen is a living run with a Pod of its own, and that Pod.
type PodSeen struct {
	Run    hearthv1.AgentRun
	Pod    Read[corev1.Pod]
	Secret Read[int] // the length of its root secret
	Events []string  // the newest warnings about the Pod
	Tail   string    // the end of the log of the life before, of a standing run only
	// Challenge and ACP are what the two ports said.
	Challenge, ACP Probe
}

// Heard is what a port said.
type Heard string

// What ports say.
const (
	HeardNothing      Heard = ""             // it was not asked; Words says why
	HeardOK           Heard = "ok"           // it proved itself, or answered initialize
	HeardClosed       Heard = "closed"       // nothing listens there
	HeardSilence      Heard = "silence"      // a connection, and no answer in time
	HeardNoTLS        Heard = "noTLS"        // an answer that is no TLS 1.3
	HeardOtherKey     Heard = "otherKey"     // TLS with another key
	HeardUnproven     Heard = "unproven"     // an answer without a valid MAC
	HeardRefused      Heard = "refused"      // 401: the proof, or the key for people
	HeardOtherPod     Heard = "otherPod"     // 421, or another identity
	HeardIncompatible Heard = "incompatible" // no version in common
	HeardOther        Heard = "other"        // anything else
)

// Probe is what was heard of a port.
type Probe struct {
	Heard Heard
	Words string
	// Of a challenge that succeeded: the harness's version, and its agent's state and name.
	Harness, Agent, State string
	// Room is running and queued of concurrency and queue.
	Room string
}
