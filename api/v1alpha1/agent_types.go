package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AgentMode says how an Agent's work is carried out.
// +kubebuilder:validation:Enum=Service;Task;Scheduled
type AgentMode string

// The modes (R34).
const (
	// AgentModeService keeps agents standing and delivers runs to them.
	AgentModeService AgentMode = "Service"
	// AgentModeTask gives each AgentRun a Pod of its own.
	AgentModeTask AgentMode = "Task"
	// AgentModeScheduled makes AgentRuns by itself at the times of a schedule, each with a Pod of its own.
	AgentModeScheduled AgentMode = "Scheduled"
)

// Backend is what a run with a Pod of its own is made as.
// +kubebuilder:validation:Enum=Pod;Sandbox
type Backend string

// The backends (R13).
const (
	BackendPod Backend = "Pod"
	// BackendSandbox makes a Sandbox of agents.x-k8s.io/v1beta1, whose own controller makes the Pod.
	BackendSandbox Backend = "Sandbox"
)

// AgentContainer is the name of the template's container that runs the harness.
const AgentContainer = "agent"

// AgentSpec says what the agent is and how it is run. You write it; the controller never does.
// +kubebuilder:validation:XValidation:rule="self.mode == oldSelf.mode",message="mode is immutable: make another Agent"
// +kubebuilder:validation:XValidation:rule="self.mode != 'Service' || has(self.goalTemplate) == has(self.runtime.delivery)",message="goalTemplate is required exactly when runtime.delivery is set"
// +kubebuilder:validation:XValidation:rule="self.mode == 'Service' || has(self.goal) != has(self.goalTemplate)",message="an Agent of mode Task or Scheduled has either goal or goalTemplate"
// +kubebuilder:validation:XValidation:rule="self.mode == 'Service' || !has(self.runtime.delivery)",message="only Agents of mode Service have runtime.delivery"
// +kubebuilder:validation:XValidation:rule="self.mode == 'Service' || self.replicas == 1",message="only Agents of mode Service have replicas"
// +kubebuilder:validation:XValidation:rule="self.mode == 'Service' || self.backoffLimit == 0",message="only Agents of mode Service have backoffLimit: a run with a Pod of its own has one attempt"
// +kubebuilder:validation:XValidation:rule="(self.mode == 'Scheduled') == has(self.schedule)",message="schedule is required exactly when mode is Scheduled"
type AgentSpec struct {
	// mode is Service (agents are kept standing and runs delivered to them), Task (each run has a Pod of its own) or Scheduled (runs
	// with a Pod of their own are made at the times of schedule). Default Service; it cannot be changed.
	// +kubebuilder:default=Service
	// +optional
	Mode AgentMode `json:"mode,omitempty"`

	// goal of a Service Agent is what the standing agent is told about its role, at the start of each session; it is never delivered
	// as work. Of a Task or Scheduled Agent it is the work itself, where that is always the same.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	// +optional
	Goal string `json:"goal,omitempty"`

	// goalTemplate makes a run's goal out of its parameters: ${name} is replaced, $${name} is a literal. Values are not expanded
	// again. A Service Agent has it exactly when runtime.delivery is set; a Task or Scheduled one has it or goal. On a Scheduled Agent
	// each parameter has a default.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	// +optional
	GoalTemplate string `json:"goalTemplate,omitempty"`

	// parameters declares what goalTemplate may use. Default: the template's placeholders are the parameters, all required.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	Parameters []Parameter `json:"parameters,omitempty"`

	// runtime is what the harness starts and how it may be used. Copied into each run.
	Runtime AgentRuntime `json:"runtime"`

	// template is the Pod of a run that has one. Its container named "agent" runs the harness. The controller adds ports, probe,
	// identity, Secret and the journal's volume, and refuses a template that contradicts them.
	Template corev1.PodTemplateSpec `json:"template"`

	// backend Pod makes a run's Pod directly; Sandbox makes a Sandbox of agents.x-k8s.io, whose controller must be installed. Default
	// Pod.
	// +kubebuilder:default=Pod
	// +optional
	Backend Backend `json:"backend,omitempty"`

	// replicas is the number of standing runs of a Service Agent. Default 1; with 0 its runs wait. kubectl scale writes it, too.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// drainTimeoutSeconds is how many seconds a standing run that is replaced or scaled away may finish what it has, before its Pod is
	// deleted. Default 1800. The Pod's own grace period comes after it.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	// +kubebuilder:default=1800
	// +optional
	DrainTimeoutSeconds *int64 `json:"drainTimeoutSeconds,omitempty"`

	// activeDeadlineSeconds is how many seconds a run may work, counted by the harness from its start. Default 1800. A run that needs
	// longer ends Failed/DeadlineExceeded; a standing Pod is never touched.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	// +kubebuilder:default=1800
	// +optional
	ActiveDeadlineSeconds int64 `json:"activeDeadlineSeconds,omitempty"`

	// startingDeadlineSeconds is how many seconds a run may not have started in all: waiting, reserved, queued in a harness, its Pod not
	// running. Default 3600.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	// +kubebuilder:default=3600
	// +optional
	StartingDeadlineSeconds int64 `json:"startingDeadlineSeconds,omitempty"`

	// backoffLimit is the number of infrastructure losses (the Pod or the harness went away) after which a new attempt is made
	// by itself. Default 0: a run is started at most once.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	BackoffLimit int32 `json:"backoffLimit,omitempty"`

	// ttlSecondsAfterFinished is how many seconds a run's record stays after its end; with it goes the run's own Pod. Default 604800, a
	// week. It is copied into each run, and holds for those of a deleted Agent too. Standing runs have none: of those that ended the last three stay.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +kubebuilder:default=604800
	// +optional
	TTLSecondsAfterFinished *int64 `json:"ttlSecondsAfterFinished,omitempty"`

	// budget bounds what a run may use, where the agent reports it. Default: no bound. It never touches a standing Pod.
	// +optional
	Budget *Budget `json:"budget,omitempty"`

	// schedule says when a Scheduled Agent's runs are made. Only a Scheduled Agent has it, and must.
	// +optional
	Schedule *Schedule `json:"schedule,omitempty"`
}

// Budget bounds what one run may use (R30). A run that uses more ends Failed/BudgetExceeded.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.cost) || (self.cost.amount.matches('^[0-9]{1,15}([.][0-9]{1,9})?$') && self.cost.amount.matches('[1-9]'))",message="cost.amount is a positive decimal number such as 5 or 0.25"
// +kubebuilder:validation:XValidation:rule="!has(self.cost) || self.cost.currency.matches('^[A-Z]{3}$')",message="cost.currency is three capital letters (ISO 4217)"
type Budget struct {
	// tokens is how many tokens a run may use in all, as the agent counts them. Default: no bound.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000000
	// +optional
	Tokens *int64 `json:"tokens,omitempty"`
	// cost is how much money a run may use, in one currency. Default: no bound. What an agent reports in another is not counted.
	// +optional
	Cost *Cost `json:"cost,omitempty"`
}

// ConcurrencyPolicy says what becomes of a time of the schedule while an earlier run has not ended.
// +kubebuilder:validation:Enum=Forbid;Allow
type ConcurrencyPolicy string

// The concurrency policies.
const (
	ConcurrencyForbid ConcurrencyPolicy = "Forbid"
	ConcurrencyAllow  ConcurrencyPolicy = "Allow"
)

// Schedule is when runs are made, and how many of them stay.
type Schedule struct {
	// cron has five fields (minute, hour, day of month, month, day of week) or is one of @hourly, @daily, @weekly, @monthly, @yearly. It
	// names readings of the clock in timeZone: one that summer time skips has no run, one that comes twice has its run at the first.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Cron string `json:"cron"`
	// timeZone is the name of an IANA time zone, for example Europe/Berlin; UTC where it is not set.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// concurrencyPolicy Forbid lets a time go by while an earlier run has not ended; Allow makes runs beside each other. Default Forbid.
	// +kubebuilder:default=Forbid
	// +optional
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`
	// startingDeadlineSeconds is how many seconds late a run may be made. Default 60. A time that went by longer ago is said to be missed and is not replayed.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	// +kubebuilder:default=60
	// +optional
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`
	// suspend true makes no run: all times go by. Default false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// successfulRunsHistoryLimit is how many runs of this Agent that succeeded stay; the newest do. Default 3.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=3
	// +optional
	SuccessfulRunsHistoryLimit *int32 `json:"successfulRunsHistoryLimit,omitempty"`
	// failedRunsHistoryLimit is how many runs of this Agent that ended in another way stay; the newest do. Default 1.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +optional
	FailedRunsHistoryLimit *int32 `json:"failedRunsHistoryLimit,omitempty"`
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
// +kubebuilder:validation:XValidation:rule="has(self.command) || has(self.endpoint)",message="command, endpoint or both say where the agent is"
// +kubebuilder:validation:XValidation:rule="!has(self.endpoint) || !has(self.delivery) || !has(self.delivery.concurrency) || self.delivery.concurrency == 1",message="an Agent with an endpoint has a delivery.concurrency of 1: one server is one agent"
// +kubebuilder:validation:XValidation:rule="self.session != 'Standing' || !has(self.session) || has(self.delivery) && (!has(self.delivery.concurrency) || self.delivery.concurrency == 1)",message="session Standing needs delivery, with a concurrency of 1: there is one session"
type AgentRuntime struct {
	// command is the agent, which the harness starts: a program that speaks the Agent Client Protocol on its standard input and output,
	// for example [goose, acp], or with endpoint a server of it. Default: none, then endpoint is required.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	// +optional
	Command []string `json:"command,omitempty"`
	// endpoint is where the agent serves the Agent Client Protocol by WebSocket inside the Pod, for example ws://127.0.0.1:4001/acp: the
	// server that command starts or, without a command, one in a container beside the harness. Default: the agent speaks on standard
	// input and output; goose serve is known to be a server without it.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^ws://(localhost|127([.](25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])){3}|\\\\[::1\\\\]):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])(/[A-Za-z0-9._~/-]*)?$')",message="endpoint is ws://, a loopback address, a port and perhaps a path, as in ws://127.0.0.1:4001/acp"
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// delivery lets AgentRuns be delivered to the standing agent. Only a Service Agent may have it; default: none are delivered.
	// +optional
	Delivery *DeliveryRuntime `json:"delivery,omitempty"`
	// output is what a run is answered with.
	// +kubebuilder:default={mediaType: "text/plain"}
	// +optional
	Output OutputRuntime `json:"output,omitzero"`
	// permissions decides how the agent's permission questions are answered.
	// +kubebuilder:default={policy: Deny}
	// +optional
	Permissions Permissions `json:"permissions,omitzero"`
	// steering is what people with the Agent's steer key may do with the session of a run: WatchOnly lets them watch and answer
	// permission questions, Steer prompt, redirect and cancel it as well. Their own sessions are theirs in any case. Default WatchOnly.
	// +kubebuilder:default=WatchOnly
	// +optional
	Steering Steering `json:"steering,omitempty"`
	// session is the agent's session that a delivered run gets: Fresh is a new one, which knows nothing of other runs; Standing is the
	// same for all of them, and the agent remembers. Default Fresh.
	// +kubebuilder:default=Fresh
	// +optional
	Session SessionPolicy `json:"session,omitempty"`
}

// Steering is what people may do with a run's session.
// +kubebuilder:validation:Enum=WatchOnly;Steer
type Steering string

// What people may do (R53).
const (
	SteeringWatchOnly Steering = "WatchOnly"
	SteeringSteer     Steering = "Steer"
)

// SessionPolicy is which session a delivered run gets.
// +kubebuilder:validation:Enum=Fresh;Standing
type SessionPolicy string

// The sessions.
const (
	SessionFresh    SessionPolicy = "Fresh"
	SessionStanding SessionPolicy = "Standing"
)

// OutputRuntime is what a run is answered with.
type OutputRuntime struct {
	// mediaType text/plain takes the agent's answer as it is; with application/json it must be one JSON value: an agent that answers
	// something else is asked once to repair it, then the run ends Failed/InvalidOutput. Default text/plain.
	// +kubebuilder:default="text/plain"
	// +optional
	MediaType MediaType `json:"mediaType,omitempty"`
}

// MediaType is that of a run's output.
// +kubebuilder:validation:Enum=text/plain;application/json
type MediaType string

// The media types.
const (
	MediaTypeText MediaType = "text/plain"
	MediaTypeJSON MediaType = "application/json"
)

// DeliveryRuntime is how work reaches the harness.
type DeliveryRuntime struct {
	// port is the TCP port of the harness's delivery listener in the Pod. Default 4100.
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self != 4000",message="4000 is the port of the ACP endpoint"
	// +kubebuilder:default=4100
	// +optional
	Port int32 `json:"port,omitempty"`
	// scheme (default HTTPS) HTTPS encrypts the delivery and pins the Pod's own key; HTTP is for foreign runtimes that only do the proofs, and
	// shows each goal to who can read the Pod network.
	// +kubebuilder:default=HTTPS
	// +optional
	Scheme DeliveryScheme `json:"scheme,omitempty"`
	// concurrency is how many runs a standing Pod carries out at once, each in an agent process of its own. Default 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=1
	// +optional
	Concurrency int32 `json:"concurrency,omitempty"`
	// queue is how many more runs a standing Pod accepts to wait inside it. Default 1.
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
// +kubebuilder:validation:Enum=Deny;Allow;Ask
type PermissionPolicy string

// The permission policies (R52).
const (
	PermissionDeny  PermissionPolicy = "Deny"
	PermissionAllow PermissionPolicy = "Allow"
	PermissionAsk   PermissionPolicy = "Ask"
)

// Permissions is the policy for the agent's permission questions.
// +kubebuilder:validation:XValidation:rule="!has(self.askTimeoutSeconds) || has(self.policy) && self.policy == 'Ask'",message="only the policy Ask has askTimeoutSeconds"
type Permissions struct {
	// policy Deny refuses each question, Allow grants it once, never for longer. Ask puts it to the people who are attached with the
	// steer key, whatever steering says; the first answer counts, and it is refused where nobody is there or nobody answers in time. Default Deny.
	// +kubebuilder:default=Deny
	// +optional
	Policy PermissionPolicy `json:"policy,omitempty"`
	// askTimeoutSeconds is how many seconds a question waits for an answer with the policy Ask, before it is refused. Default 300.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +optional
	AskTimeoutSeconds *int32 `json:"askTimeoutSeconds,omitempty"`
}

// AgentStatus is what the controller last saw of the Agent, its standing runs and its schedule. Only the controller writes it.
type AgentStatus struct {
	// conditions: Ready (of a Service Agent: a standing run can take work; of the others: runs can be made) and, on a Service Agent,
	// Progressing (standing runs are being brought up, replaced or drained).
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the metadata.generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// replicas is the number of living standing runs, of which those that are cordoned finish what they have.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is the number of standing runs that can take work: their agent listens, their delivery port proved to be the
	// Pod's, and they are not cordoned.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// busy is the number of runs that the standing runs carry out now, as they last told.
	// +optional
	Busy int32 `json:"busy,omitempty"`
	// queued is the number of runs that wait inside the standing runs, as they last told.
	// +optional
	Queued int32 `json:"queued,omitempty"`
	// activeRuns is the number of runs that the schedule made and that have not ended.
	// +optional
	ActiveRuns int32 `json:"activeRuns,omitempty"`
	// lastScheduleTime is the time of the schedule that a run was last made for.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// nextScheduleTime is the next time of the schedule; absent while it is suspended.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// observedSchedule is the cron and the time zone that nextScheduleTime is a time of; absent while there is none. When it changes,
	// times of the new one before that moment have no run.
	// +kubebuilder:validation:MaxLength=330
	// +optional
	ObservedSchedule string `json:"observedSchedule,omitempty"`
	// lastMissedTime is the last time of the schedule that no run was made for: too late, forbidden, its name was taken, or what had been
	// promised was suspended, changed, or could not work.
	// +optional
	LastMissedTime *metav1.Time `json:"lastMissedTime,omitempty"`
	// recasts is how often a standing run that ended was replaced since the Agent was made.
	// +optional
	Recasts int32 `json:"recasts"`
	// lastRecastTime is when a standing run was last replaced.
	// +optional
	LastRecastTime *metav1.MicroTime `json:"lastRecastTime,omitempty"`
	// recastBackoffSeconds is how many seconds the next replacement waits; it doubles with each and resets after ten healthy minutes.
	// +optional
	RecastBackoffSeconds int32 `json:"recastBackoffSeconds,omitempty"`
}

// Agent says what an agent is and how AgentRuns are carried out by it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas
// +kubebuilder:resource:categories=hearth,shortName=hagent
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Standing",type=integer,JSONPath=`.status.readyReplicas`,description="standing runs that can take work"
// +kubebuilder:printcolumn:name="Wanted",type=integer,JSONPath=`.spec.replicas`,description="standing runs that a Service Agent wants"
// +kubebuilder:printcolumn:name="Busy",type=integer,JSONPath=`.status.busy`,description="runs that the standing runs carry out"
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.nextScheduleTime`,description="the next time of the schedule, in UTC"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Queued",type=integer,JSONPath=`.status.queued`,priority=1,description="runs that wait inside the standing runs"
// +kubebuilder:printcolumn:name="Recasts",type=integer,JSONPath=`.status.recasts`,priority=1,description="standing runs that ended and were replaced"
// +kubebuilder:printcolumn:name="Backend",type=string,JSONPath=`.spec.backend`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
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
