package v1alpha1

import (
	"math"
	"time"
)

// Target names the Pod that a request is meant for (SPEC.md, Identity).
type Target struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// RunRef names an AgentRun; its UID is the idempotency identity (R24).
type RunRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// Identity is who a harness is: its Pod, as the downward API tells it.
type Identity struct {
	Namespace string `json:"namespace"`
	PodName   string `json:"podName"`
	PodUID    string `json:"podUID"`
}

// ChallengeRequest is the body of POST ChallengePath.
type ChallengeRequest struct {
	APIVersion string `json:"apiVersion"`
	Target     Target `json:"target"`
}

// ChallengeAnswer says who answered, in which life, and what it can take (SPEC.md, Endpoints).
type ChallengeAnswer struct {
	APIVersion string      `json:"apiVersion"`
	Identity   Identity    `json:"identity"`
	Boot       string      `json:"boot"`    // ID of this life of the harness process
	Journal    string      `json:"journal"` // changes when the journal was lost
	Harness    HarnessInfo `json:"harness"`
	Agent      AgentInfo   `json:"agent"`
	Capacity   Capacity    `json:"capacity"`
	Versions   []string    `json:"versions"` // every delivery version served, newest first
}

// HarnessInfo names the build that answers.
type HarnessInfo struct {
	Version string `json:"version"`
}

// AgentState says whether the agent behind the harness can be given work.
type AgentState string

// The states of an agent.
const (
	AgentStarting AgentState = "starting" // not answered initialize yet
	AgentReady    AgentState = "ready"    // at least one agent process answers
	AgentDown     AgentState = "down"     // exited; being restarted
	AgentDraining AgentState = "draining" // the harness takes no new work
)

// AgentInfo is what the agent said of itself, and how it is.
type AgentInfo struct {
	Name    string     `json:"name,omitzero"`
	Version string     `json:"version,omitzero"`
	State   AgentState `json:"state"`
}

// Capacity counts attempts: at most Concurrency run at once and at most Queue more wait.
type Capacity struct {
	Concurrency int `json:"concurrency"`
	Queue       int `json:"queue"`
	Running     int `json:"running"`
	Queued      int `json:"queued"`
}

// Valid tells whether each number can be one of attempts. Those of a few together are within an int.
func (c Capacity) Valid() bool {
	return min(c.Concurrency, c.Queue, c.Running, c.Queued) >= 0 && max(c.Concurrency, c.Queue, c.Running, c.Queued) <= math.MaxInt32
}

// Room is how many more attempts would be accepted now.
func (c Capacity) Room() int { return max(0, c.Concurrency+c.Queue-c.Running-c.Queued) }

// SessionMode says which ACP session a goal runs in.
type SessionMode string

// Session modes; absent means fresh.
const (
	SessionFresh    SessionMode = "fresh"
	SessionStanding SessionMode = "standing"
)

// DeliveryRequest is the body of POST RunsPath (SPEC.md, Endpoints).
type DeliveryRequest struct {
	APIVersion string      `json:"apiVersion"`
	Run        RunRef      `json:"run"`
	Attempt    int64       `json:"attempt"` // from 1
	Target     Target      `json:"target"`
	Journal    string      `json:"journal"` // the journal ID that the caller's challenge was answered with
	Goal       string      `json:"goal"`
	Session    SessionMode `json:"session,omitzero"`
	Limits     *Limits     `json:"limits,omitzero"`
}

// Limits bound one attempt; an absent one does not limit. All are positive.
type Limits struct {
	// StartWithinSeconds: an attempt that has not started by then is voided.
	StartWithinSeconds *int64 `json:"startWithinSeconds,omitzero"`
	// ActiveSeconds: the run's own time, counted from its start on the harness's monotonic clock.
	ActiveSeconds *int64 `json:"activeSeconds,omitzero"`
	// Tokens: total tokens, where the agent reports them.
	Tokens *int64 `json:"tokens,omitzero"`
	// Cost: total cost, where the agent reports it.
	Cost *Cost `json:"cost,omitzero"`
}

// Cost is an amount of money: a decimal number as text, and its ISO 4217 currency.
type Cost struct {
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
}

// State is where an attempt is in the harness: accepted → running → finished, or voided (SPEC.md, Attempt states).
type State string

// The states of an attempt.
const (
	StateAccepted State = "accepted" // journalled, not started
	StateRunning  State = "running"  // the goal was, or was about to be, sent to the agent
	StateFinished State = "finished" // ended; the envelope says how
	StateVoided   State = "voided"   // never started and never will
)

// Ended tells whether nothing more will happen to the attempt.
func (s State) Ended() bool { return s == StateFinished || s == StateVoided }

// Attempt is one attempt as its harness sees it. Times are the harness's clock.
type Attempt struct {
	Run             RunRef     `json:"run"`
	Attempt         int64      `json:"attempt"`
	Digest          string     `json:"digest"`
	State           State      `json:"state"`
	CancelRequested bool       `json:"cancelRequested,omitzero"`
	AcceptedAt      *time.Time `json:"acceptedAt,omitzero"`
	StartedAt       *time.Time `json:"startedAt,omitzero"`
	FinishedAt      *time.Time `json:"finishedAt,omitzero"`
	Session         string     `json:"session,omitzero"` // the ACP session it runs or ran in
	Recorded        bool       `json:"recorded,omitzero"`
	// Envelope is present on a finished attempt until it was recorded and dropped; never in the change feed.
	Envelope *Envelope `json:"envelope,omitzero"`
}

// Changes is the answer of GET RunsPath: every attempt that changed after the revision asked for (SPEC.md, Endpoints).
type Changes struct {
	Revision int64     `json:"revision"` // ask for this next; belongs to one boot
	Agent    AgentInfo `json:"agent"`
	Capacity Capacity  `json:"capacity"`
	Runs     []Attempt `json:"runs"`
	More     bool      `json:"more"` // the page was full; ask again at once
}
