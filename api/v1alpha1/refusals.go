package v1alpha1

// RefusalCode is why admission refused a sparse AgentRun (R21). It stands in brackets in the message and as the type of a cause
// in the answer's status.details.causes.
type RefusalCode string

// The refusal codes.
const (
	// RefusalMissingAgent: the Agent does not exist in the run's namespace, or none was named and ad-hoc runs are off.
	RefusalMissingAgent RefusalCode = "MissingAgent"
	// RefusalConflictingFields: a field is set that admission resolves.
	RefusalConflictingFields RefusalCode = "ConflictingFields"
	// RefusalDeliveryDisabled: the Service Agent takes no deliveries.
	RefusalDeliveryDisabled RefusalCode = "DeliveryDisabled"
	// RefusalWrongMode: Agents of this mode are not invoked by AgentRuns.
	RefusalWrongMode RefusalCode = "WrongMode"
	// RefusalReservedName: the name is one that the controller gives standing runs, or runs that a schedule makes (R23).
	RefusalReservedName RefusalCode = "ReservedName"
	// RefusalInvalidTemplate: the Agent's goalTemplate cannot be filled.
	RefusalInvalidTemplate RefusalCode = "InvalidTemplate"
	// RefusalMissingParameters: required parameters have no value.
	RefusalMissingParameters RefusalCode = "MissingParameters"
	// RefusalUnusedParameters: the Agent has no parameters of these names.
	RefusalUnusedParameters RefusalCode = "UnusedParameters"
	// RefusalInvalidDelivery: what would be delivered cannot be: it is empty or too large, or the Agent's port is unusable.
	RefusalInvalidDelivery RefusalCode = "InvalidDelivery"
	// RefusalNamespaceNotServed: the controller is limited to other namespaces; nobody would carry the run or the Agent out.
	RefusalNamespaceNotServed RefusalCode = "NamespaceNotServed"
)

// MaxGoalBytes bounds a run's goal and parameters together, in bytes.
const MaxGoalBytes = 256 << 10
