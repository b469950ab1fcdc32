package v1alpha1

// What the API server puts where an Agent says nothing. An ad-hoc run has the same.
const (
	DefaultReplicas                   = 1
	DefaultDrainTimeoutSeconds        = 1800
	DefaultActiveDeadlineSeconds      = 1800
	DefaultStartingDeadlineSeconds    = 3600
	DefaultTTLSecondsAfterFinished    = 604800
	DefaultLateSeconds                = 60 // schedule.startingDeadlineSeconds
	DefaultSuccessfulRunsHistoryLimit = 3
	DefaultFailedRunsHistoryLimit     = 1
)
