package delivery

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// assigned is the reason that Assign gives a waiting run.
func assigned(t *testing.T, pool Pool) Condition {
	t.Helper()
	a := Assign(later, []Run{waitingRun(1)}, pool)
	require.Empty(t, a.Reserves)
	require.Len(t, a.Untold(later, 9), 1)
	return WaitStatus(waitingRun(1), a.Refusal).Succeeded
}

// decided is the reason that Decide gives a reserved one.
func decided(t *testing.T, set func(*Run, *Observed)) Condition {
	t.Helper()
	run, obs := scene(t)
	run.Reason = ""
	set(&run, &obs)
	d := Decide(later, run, obs)
	require.NotNil(t, d.Status)
	return d.Status.Succeeded
}

// R28: each reason for which a living delivered run can be where it is, and what leads to it. In a few the run is not even waiting; they
// are here so that none is missing.
func TestEveryReasonOfALivingRunHasARow(t *testing.T) {
	target := func(change func(*Target)) Pool { return Pool{Targets: []Target{targetWith(1, change)}} }
	link := func(s LinkState) Pool { return target(func(t *Target) { t.Link = s }) }
	rows := map[string]struct {
		is   Condition
		want Reason
	}{
		"no standing run, replicas 0 among them":   {assigned(t, Pool{}), ReasonWaitingForService},
		"a standing run ended, its backoff goes":   {assigned(t, Pool{Recasting: true}), ReasonServiceRecasting},
		"cordoned (a rolling change, scaled away)": {assigned(t, target(func(t *Target) { t.Cordoned = true })), ReasonServiceRecasting},
		"its target went away before it was sent":  {decided(t, func(_ *Run, o *Observed) { o.PodRead = PodGone }), ReasonServiceRecasting},
		"the Pod does not listen":                  {assigned(t, target(func(t *Target) { t.Listening = false })), ReasonTargetNotReady},
		"not challenged yet":                       {assigned(t, link(LinkChallenging)), ReasonTargetNotReady},
		"the agent is down":                        {assigned(t, target(func(t *Target) { t.Agent = wire.AgentDown })), ReasonTargetNotReady},
		"given back unstarted by a drain":          {decided(t, func(_ *Run, o *Observed) { o.sees(told(wire.StateVoided)) }), ReasonTargetNotReady},
		"no room, in slots and queue":              {assigned(t, target(func(t *Target) { t.Capacity.Running, t.Capacity.Queued = 1, 1 })), ReasonTargetBusy},
		"no room but for what was reserved":        {assigned(t, target(func(t *Target) { t.Reserved = 2 })), ReasonTargetBusy},
		"429, voided there": {decided(t, func(_ *Run, o *Observed) {
			o.refused(1, wire.CodeBusy)
			o.Seen, o.SeenJournal = told(wire.StateVoided), testJournal
		}), ReasonTargetBusy},
		"nobody there gives a valid answer":    {assigned(t, link(LinkUnreachable)), ReasonTargetUnreachable},
		"reserved, never left":                 {decided(t, func(_ *Run, o *Observed) { o.refused(1, "") }), ReasonTargetUnreachable},
		"found reserved, and nobody answers":   {decided(t, func(_ *Run, o *Observed) { o.found(); o.Link = LinkUnreachable }), ReasonTargetUnreachable},
		"a verified 401 to the challenge":      {assigned(t, link(LinkUnauthenticated)), ReasonTargetUnauthenticated},
		"a verified 401 to a delivery":         {decided(t, func(_ *Run, o *Observed) { o.refused(1, wire.CodeUnauthenticated) }), ReasonTargetUnauthenticated},
		"a verified 406 to the challenge":      {assigned(t, link(LinkIncompatible)), ReasonTargetIncompatible},
		"a verified 406 to a delivery":         {decided(t, func(_ *Run, o *Observed) { o.refused(1, wire.CodeUnsupportedVersion) }), ReasonTargetIncompatible},
		"a verified 413 to a delivery":         {decided(t, func(_ *Run, o *Observed) { o.refused(1, wire.CodeTooLarge) }), ReasonTargetIncompatible},
		"a verified 415 to a delivery":         {decided(t, func(_ *Run, o *Observed) { o.refused(1, wire.CodeUnsupportedMedia) }), ReasonTargetIncompatible},
		"a target was chosen":                  {ReserveStatus(waitingRun(1), Reservation{Attempt: 1, At: later}).Succeeded, ReasonReserved},
		"sent, and its reply was lost":         {decided(t, func(_ *Run, o *Observed) { o.Sent.Count = 1 }), ReasonReserved},
		"accepted, waiting inside the harness": {decided(t, func(_ *Run, o *Observed) { o.sees(told(wire.StateAccepted)) }), ReasonQueued},
		"at work":                              {decided(t, func(_ *Run, o *Observed) { o.sees(told(wire.StateRunning)) }), ReasonRunning},
		"at work, and nobody has answered for 90 s": {decided(t, func(_ *Run, o *Observed) {
			o.sees(told(wire.StateRunning))
			o.Link, o.LastContact = LinkUnreachable, later.Add(-ContactLostAfter)
		}), ReasonContactLost},
		"asked to stop, not confirmed": {decided(t, func(r *Run, o *Observed) { r.Cancel = true; o.sees(told(wire.StateRunning)) }), ReasonCancelling},
	}
	reached := map[Reason]bool{}
	for name, row := range rows {
		assert.Equal(t, row.want, row.is.Reason, name)
		assert.Equal(t, Unknown, row.is.Status, "%s: it lives", name)
		assert.NotEmpty(t, row.is.Message, "%s: it says so in a sentence", name)
		reached[row.want] = true
	}
	for _, reason := range livingReasons(t) {
		assert.True(t, reached[reason], "no row for %s", reason)
	}
}

// livingReasons are the constants of reasons.go that say where a living run is.
func livingReasons(t *testing.T) []Reason {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "reasons.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var found []Reason
	for _, declaration := range file.Decls {
		constants, ok := declaration.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST {
			continue
		}
		for _, spec := range constants.Specs {
			literal, ok := spec.(*ast.ValueSpec).Values[0].(*ast.BasicLit)
			require.True(t, ok)
			text, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			if reason := Reason(text); reason != ReasonAccepted && reason != ReasonFinished { // of other conditions
				found = append(found, reason)
			}
		}
		require.Len(t, found, 12, "the first block")
		return found
	}
	return nil
}
