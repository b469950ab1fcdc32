package delivery

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const (
	testJournal = "journal-1"
	testGoal    = "Review PR 17."
)

func testIdentity() wire.Identity {
	return wire.Identity{Namespace: "team", PodName: "reviewer-1", PodUID: "pod-1"}
}

func testRequest(attempt int64) wire.DeliveryRequest {
	return wire.DeliveryRequest{
		APIVersion: wire.APIVersion,
		Run:        wire.RunRef{Namespace: "team", Name: "review-x", UID: "run-1"},
		Attempt:    attempt,
		Target:     wire.Target{Name: "reviewer-1", UID: "pod-1"},
		Journal:    testJournal,
		Goal:       testGoal,
	}
}

func ready() Held {
	return Held{Agent: wire.AgentReady, Capacity: wire.Capacity{Concurrency: 1, Queue: 1}}
}

func holding(state wire.State, attempt int64, change ...func(*Known)) Held {
	h := ready()
	h.Highest = attempt
	h.Same = &Known{Attempt: wire.Attempt{Run: testRequest(attempt).Run, Attempt: attempt, State: state, Digest: wire.Digest("run-1", attempt, testGoal)}}
	if !state.Ended() {
		h.Active = attempt
	}
	for _, c := range change {
		c(h.Same)
	}
	return h
}

func with(h Held, change func(*Held)) Held {
	change(&h)
	return h
}

// SPEC.md, Endpoints: every answer to a delivery, and which fault wins when two are there at once.
func TestAdmitAnswersInTheOrderOfTheContract(t *testing.T) {
	other := func(k *Known) { k.Digest = "another" }
	worst := func(h *Held) { h.Draining, h.Agent, h.Capacity.Running = true, wire.AgentDown, 2 }
	for name, c := range map[string]struct {
		edit func(*wire.DeliveryRequest)
		held Held
		kind AdmissionKind
		code wire.Code
	}{
		"new":                                     {held: ready(), kind: AdmissionAccept},
		"new, one place left in the queue":        {held: with(ready(), func(h *Held) { h.Capacity.Running = 1 }), kind: AdmissionAccept},
		"another name":                            {edit: func(r *wire.DeliveryRequest) { r.Target.Name = "other" }, held: ready(), code: wire.CodeMisdirected},
		"another UID of the same name (row 23)":   {edit: func(r *wire.DeliveryRequest) { r.Target.UID = "pod-0" }, held: ready(), code: wire.CodeMisdirected},
		"another journal (row 18)":                {edit: func(r *wire.DeliveryRequest) { r.Journal = "journal-0" }, held: ready(), code: wire.CodeJournalChanged},
		"target before journal":                   {edit: func(r *wire.DeliveryRequest) { r.Target.UID, r.Journal = "x", "x" }, held: ready(), code: wire.CodeMisdirected},
		"journal before known":                    {edit: func(r *wire.DeliveryRequest) { r.Journal = "x" }, held: holding(wire.StateRunning, 3), code: wire.CodeJournalChanged},
		"accepted already":                        {held: holding(wire.StateAccepted, 3), kind: AdmissionDuplicate},
		"running already":                         {held: holding(wire.StateRunning, 3), kind: AdmissionDuplicate},
		"finished already (row 54)":               {held: holding(wire.StateFinished, 3), kind: AdmissionDuplicate},
		"known before draining (row 55)":          {held: with(holding(wire.StateAccepted, 3), worst), kind: AdmissionDuplicate},
		"another content (row 12)":                {held: holding(wire.StateRunning, 3, other), code: wire.CodeDigestMismatch},
		"another content before draining":         {held: with(holding(wire.StateRunning, 3, other), worst), code: wire.CodeDigestMismatch},
		"voided (row 13)":                         {held: holding(wire.StateVoided, 3), code: wire.CodeVoided},
		"voided unseen: no digest to compare":     {held: holding(wire.StateVoided, 3, func(k *Known) { k.Digest = "" }), code: wire.CodeVoided},
		"voided before draining":                  {held: with(holding(wire.StateVoided, 3), worst), code: wire.CodeVoided},
		"recorded and dropped (row 54)":           {held: holding(wire.StateFinished, 3, func(k *Known) { k.Forgotten = true }), code: wire.CodeForgotten},
		"recorded, still kept":                    {held: holding(wire.StateFinished, 3, func(k *Known) { k.Recorded = true }), kind: AdmissionDuplicate},
		"lower than one seen":                     {held: with(ready(), func(h *Held) { h.Highest = 4 }), code: wire.CodeSuperseded},
		"superseded before active and draining":   {held: with(with(ready(), worst), func(h *Held) { h.Highest, h.Active = 4, 4 }), code: wire.CodeSuperseded},
		"an earlier one is alive":                 {held: with(ready(), func(h *Held) { h.Highest, h.Active = 2, 2 }), code: wire.CodeAttemptActive},
		"active before draining":                  {held: with(with(ready(), worst), func(h *Held) { h.Highest, h.Active = 2, 2 }), code: wire.CodeAttemptActive},
		"an earlier one is over":                  {held: with(ready(), func(h *Held) { h.Highest = 2 }), kind: AdmissionAccept},
		"draining":                                {held: with(ready(), func(h *Held) { h.Draining = true }), code: wire.CodeDraining},
		"draining before agent":                   {held: with(ready(), worst), code: wire.CodeDraining},
		"agent starting":                          {held: with(ready(), func(h *Held) { h.Agent = wire.AgentStarting }), code: wire.CodeAgentUnavailable},
		"agent before capacity":                   {held: with(ready(), func(h *Held) { h.Agent, h.Capacity.Running = wire.AgentDown, 2 }), code: wire.CodeAgentUnavailable},
		"busy":                                    {held: with(ready(), func(h *Held) { h.Capacity.Running, h.Capacity.Queued = 1, 1 }), code: wire.CodeBusy},
		"known although busy (row 11)":            {held: with(holding(wire.StateRunning, 3), func(h *Held) { h.Capacity.Running, h.Capacity.Queued = 1, 1 }), kind: AdmissionDuplicate},
		"known of a lower number than the newest": {held: with(holding(wire.StateFinished, 3), func(h *Held) { h.Highest = 5 }), kind: AdmissionDuplicate},
	} {
		t.Run(name, func(t *testing.T) {
			r := testRequest(3)
			if c.edit != nil {
				c.edit(&r)
			}
			got := Admit(testIdentity(), testJournal, r, c.held)
			require.Equal(t, c.kind, got.Kind, "%v", got.Problem)
			switch got.Kind {
			case AdmissionAccept:
				assert.Nil(t, got.Problem)
			case AdmissionDuplicate:
				assert.Same(t, c.held.Same, got.Known)
			case AdmissionRefuse:
				require.NotNil(t, got.Problem)
				assert.Equal(t, c.code, got.Problem.Code)
				assert.Equal(t, c.code.Status(), got.Problem.Status)
				assert.NotContains(t, got.Problem.Detail, "PR 17", "a refusal never repeats the goal (I8)")
			}
		})
	}
}

func TestARefusalCarriesWhatTheCallerNeedsNext(t *testing.T) {
	r := testRequest(1)
	r.Journal = "old"
	assert.Equal(t, testJournal, Admit(testIdentity(), testJournal, r, ready()).Problem.Journal)
	full := wire.Capacity{Concurrency: 1, Running: 1}
	busy := Admit(testIdentity(), testJournal, testRequest(1), with(ready(), func(h *Held) { h.Capacity = full }))
	assert.Equal(t, &full, busy.Problem.Capacity)
}

// Row 33; SPEC.md, Endpoints: a cancel before the start, during it and after the end are three cases.
func TestCancelIsDecidedByWhereTheAttemptIs(t *testing.T) {
	for name, c := range map[string]struct {
		held         Held
		ifNotStarted bool
		kind         CancellationKind
		code         wire.Code
	}{
		"never seen":                    {held: ready(), kind: CancellationVoid},
		"never seen, if not started":    {held: ready(), ifNotStarted: true, kind: CancellationVoid},
		"accepted":                      {held: holding(wire.StateAccepted, 3), kind: CancellationVoid},
		"accepted, if not started":      {held: holding(wire.StateAccepted, 3), ifNotStarted: true, kind: CancellationVoid},
		"running":                       {held: holding(wire.StateRunning, 3), kind: CancellationStop},
		"running, if not started":       {held: holding(wire.StateRunning, 3), ifNotStarted: true, code: wire.CodeStarted},
		"finished":                      {held: holding(wire.StateFinished, 3), kind: CancellationEnded},
		"finished, if not started":      {held: holding(wire.StateFinished, 3), ifNotStarted: true, code: wire.CodeStarted},
		"voided":                        {held: holding(wire.StateVoided, 3), kind: CancellationEnded},
		"voided, if not started":        {held: holding(wire.StateVoided, 3), ifNotStarted: true, kind: CancellationEnded},
		"in a state nobody knows":       {held: holding("odd", 3), code: wire.CodeInternal},
		"never seen, another is active": {held: with(ready(), func(h *Held) { h.Highest, h.Active = 2, 2 }), kind: CancellationVoid},
	} {
		t.Run(name, func(t *testing.T) {
			got := Cancel(c.held, c.ifNotStarted)
			require.Equal(t, c.kind, got.Kind)
			if c.kind == CancellationRefuse {
				require.NotNil(t, got.Problem)
				assert.Equal(t, c.code, got.Problem.Code)
				return
			}
			assert.Nil(t, got.Problem)
			assert.Equal(t, c.held.Same, got.Known)
		})
	}
}

func TestOnlyAnEndedAttemptIsRecorded(t *testing.T) {
	assert.Equal(t, wire.CodeUnknown, Record(ready()).Code)
	assert.Equal(t, wire.CodeAttemptActive, Record(holding(wire.StateAccepted, 1)).Code)
	assert.Equal(t, wire.CodeAttemptActive, Record(holding(wire.StateRunning, 1)).Code)
	assert.Nil(t, Record(holding(wire.StateFinished, 1)))
	assert.Nil(t, Record(holding(wire.StateVoided, 1)))
}
