package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AgentMode says how an Agent's work is carried out.
// +kubebuilder:validation:Enum=Service
type AgentMode string

// AgentModeService keeps an agent standing and delivers runs to it.
const AgentModeService AgentMode = "Service"

// AgentContainer is the name of the template's container that runs the harness.
const AgentContainer = "agent"

// AgentSpec says what the agent is and how it is run.
// +kubebuilder:validation:XValidation:rule="has(self.goalTemplate) == has(self.runtime.delivery)",message="goalTemplate is required exactly when runtime.delivery is set"
type AgentSpec struct {
	// mode is Service: an agent is kept standing in a Pod.
	// +kubebuilder:default=Service
	// +optional
	Mode AgentMode `json:"mode,omitempty"`

	// goal is what the standing agent is told about its role, at the start of each session. It is never delivered as work.
	// +kubebuilder:validation:MaxLength=262144
	// +optional
	Goal string `json:"goal,omitempty"`

	// goalTemplate makes the goal of a delivered run out of its parameters: ${name} is replaced, $${name} is a literal.
	// Values are not expanded again. Required exactly when runtime.delivery is set.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	// +optional
	GoalTemplate string `json:"goalTemplate,omitempty"`

	// parameters declares what goalTemplate may use. Without it the template's placeholders are the parameters, all required.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	Parameters []Parameter `json:"parameters,omitempty"`

	// runtime is what the harness starts and how it may be used. Copied into each run.
	Runtime AgentRuntime `json:"runtime"`

	// template is the Pod of a standing run. Its container named "agent" runs the harness. The controller adds ports, probe,
	// identity, Secret and the journal's volume, and refuses a template that contradicts them.
	Template corev1.PodTemplateSpec `json:"template"`

	// activeDeadlineSeconds bounds a delivered run's own time, counted by the harness from its start. It never touches the standing Pod.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	// +kubebuilder:default=1800
	// +optional
	ActiveDeadlineSeconds int64 `json:"activeDeadlineSeconds,omitempty"`

	// startingDeadlineSeconds bounds all the time that a delivered run has not started: waiting, reserved, queued in the harness.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	// +kubebuilder:default=3600
	// +optional
	StartingDeadlineSeconds int64 `json:"startingDeadlineSeconds,omitempty"`

	// backoffLimit is the number of infrastructure losses (the Pod or the harness went away) after which a new attempt is made
	// by itself. With 0 a run is started at most once.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	BackoffLimit int32 `json:"backoffLimit,omitempty"`
}

// Parameter is one value that goalTemplate may use.
type Parameter struct {
	// name is the placeholder's name: ${name}.
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// default is used when a run gives no value. Without it the parameter is required.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Default *string `json:"default,omitempty"`
	// description says what the parameter is for.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`
}

// AgentRuntime is the agent program and the terms of its use.
type AgentRuntime struct {
	// command is the program that speaks the Agent Client Protocol on its standard input and output, for example [goose, acp].
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	Command []string `json:"command"`
	// delivery lets AgentRuns be delivered to the standing agent.
	// +optional
	Delivery *DeliveryRuntime `json:"delivery,omitempty"`
	// permissions decides what the agent's permission questions are answered while nobody watches.
	// +kubebuilder:default={policy: Deny}
	// +optional
	Permissions Permissions `json:"permissions,omitzero"`
}

// DeliveryRuntime is how work reaches the harness.
type DeliveryRuntime struct {
	// port of the harness's delivery listener.
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self != 4000",message="4000 is the port of the ACP endpoint"
	// +kubebuilder:default=4100
	// +optional
	Port int32 `json:"port,omitempty"`
	// scheme HTTPS encrypts the delivery and pins the Pod's own key; HTTP is for foreign runtimes that only do the proofs, and
	// shows each goal to who can read the Pod network.
	// +kubebuilder:default=HTTPS
	// +optional
	Scheme DeliveryScheme `json:"scheme,omitempty"`
	// concurrency is how many runs a standing Pod carries out at once, each in an agent process of its own.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=1
	// +optional
	Concurrency int32 `json:"concurrency,omitempty"`
	// queue is how many more runs a standing Pod accepts to wait inside it.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1024
	// +kubebuilder:default=1
	// +optional
	Queue *int32 `json:"queue,omitempty"`
}

// DeliveryScheme is how the delivery listener is spoken to.
// +kubebuilder:validation:Enum=HTTPS;HTTP
type DeliveryScheme string

// The delivery schemes.
const (
	DeliveryHTTPS DeliveryScheme = "HTTPS"
	DeliveryHTTP  DeliveryScheme = "HTTP"
)

// PermissionPolicy answers the agent's permission questions.
// +kubebuilder:validation:Enum=Deny;Allow
type PermissionPolicy string

// The permission policies.
const (
	PermissionDeny  PermissionPolicy = "Deny"
	PermissionAllow PermissionPolicy = "Allow"
)

// Permissions is the policy for the agent's permission questions.
type Permissions struct {
	// policy Deny refuses each question, Allow grants it once. Never more than once.
	// +kubebuilder:default=Deny
	// +optional
	Policy PermissionPolicy `json:"policy,omitempty"`
}

// AgentStatus is what the controller last saw of the Agent's standing runs.
type AgentStatus struct {
	// conditions: Ready (a standing run can take work) and Progressing (the controller is bringing one up).
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// replicas is the number of standing runs.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is the number of standing runs whose agent listens.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// recasts is how often a standing run that ended was replaced since the Agent was made.
	// +optional
	Recasts int32 `json:"recasts"`
	// lastRecastTime is when a standing run was last replaced.
	// +optional
	LastRecastTime *metav1.MicroTime `json:"lastRecastTime,omitempty"`
	// recastBackoffSeconds is how long the next replacement waits; it doubles with each and resets after ten healthy minutes.
	// +optional
	RecastBackoffSeconds int32 `json:"recastBackoffSeconds,omitempty"`
}

// Agent is a standing agent that AgentRuns are delivered to.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=hearth
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Standing",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Recasts",type=integer,JSONPath=`.status.recasts`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Agent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AgentSpec   `json:"spec"`
	Status AgentStatus `json:"status,omitempty"`
}

// AgentList is a list of Agents.
// +kubebuilder:object:root=true
type AgentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Agent `json:"items"`
}
