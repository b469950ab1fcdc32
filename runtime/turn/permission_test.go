package turn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/router"
)

func permission(id string, kinds ...string) string {
	var options []string
	for i, k := range kinds {
		options = append(options, fmt.Sprintf(`{"optionId":"o%d","name":"n","kind":%q}`, i, k))
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t"},"options":[` + strings.Join(options, ",") + `]}}`
}

// R52: by kind and never by position, and never for longer than once.
func TestThePolicyChoosesByKind(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		kinds  []string
		want   string
	}{
		{Deny, []string{"allow_always", "allow_once", "reject_always", "reject_once"}, "o3"},
		{Deny, []string{"reject_once", "allow_once"}, "o0"},
		{Deny, []string{"allow_once", "reject_always"}, "cancelled"},
		{Deny, nil, "cancelled"},
		{Allow, []string{"allow_always", "reject_once", "allow_once"}, "o2"},
		{Allow, []string{"allow_always", "reject_once"}, "cancelled"},
		{Ask, []string{"allow_always", "allow_once", "reject_always", "reject_once"}, "o3"}, // nobody can be asked
		{Ask, []string{"allow_once", "reject_always"}, "cancelled"},
	} {
		t.Run(fmt.Sprint(c.policy, c.kinds), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, 0)
				s.runner.Policy = c.policy
				s.begin(t.Context(), Goal{Text: "g"})
				s.write(permission("7", c.kinds...))
				want := `{"outcome":{"outcome":"selected","optionId":"` + c.want + `"}}`
				if c.want == "cancelled" {
					want = `{"outcome":{"outcome":"cancelled"}}`
				}
				assert.JSONEq(t, want, string(s.read().Result))
				s.end("end_turn")
				<-s.done
			})
		})
	}
}

func TestAModeThatAsksNothingIsWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.begin(t.Context(), Goal{Text: "g"})
		s.update(`"sessionUpdate":"current_mode_update","currentModeId":"smart_approve"`)
		s.update(`"sessionUpdate":"current_mode_update","currentModeId":"auto"`)
		s.update(`"sessionUpdate":"current_mode_update","currentModeId":"auto"`)
		s.update(`"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"x"}`)
		s.update(`"sessionUpdate":7`)
		s.say("x")
		s.end("end_turn")
		assert.Equal(t, []string{
			`the agent's mode "auto" asks for no permission, so the policy Deny decided nothing`,
			"the agent said something that is not text; it is left out of the output",
			"an update of the agent could not be understood",
		}, (<-s.done).envelope.Warnings)
	})
}

// person is who a question was put to.
type person struct {
	question  *router.Request
	otherwise func()
}

// asks makes the stage's policy Ask and returns where its questions arrive.
func (s *stage) asks() <-chan person {
	people := make(chan person, maxOpenQuestions)
	s.runner.Policy = Ask
	s.seat.Ask = func(q *router.Request, otherwise func()) { people <- person{q, otherwise} }
	return people
}

func (s *stage) requireAnswer(want string) {
	s.t.Helper()
	require.JSONEq(s.t, `{"outcome":`+want+`}`, string(s.read().Result))
}

// R52: with the policy Ask people decide; the first answer counts, and if there is none the answer is Deny's.
func TestThePolicyAskPutsQuestionsToPeople(t *testing.T) {
	allow := func(p person) {
		_ = p.question.Answer(acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeSelected("o0")})
	}
	deny := func(p person) { p.otherwise() }
	for name, c := range map[string]struct {
		do       []func(person)
		want     string
		warnings []string
	}{
		"answered": {[]func(person){allow, deny}, `{"outcome":"selected","optionId":"o0"}`, nil},
		"too late": {[]func(person){deny, allow}, `{"outcome":"selected","optionId":"o1"}`, []string{noAnswer}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, 0)
				people := s.asks()
				s.begin(t.Context(), Goal{Text: "g"})
				s.write(permission(`"q-é"`, "allow_once", "reject_once"))
				p := <-people
				for _, f := range c.do {
					f(p)
				}
				s.requireAnswer(c.want)
				require.NoError(t, s.conn.Notify("next", 1))
				assert.Equal(t, "next", s.read().Method, "one answer was sent")
				s.say("x")
				s.end("end_turn")
				e := (<-s.done).envelope
				assert.Equal(t, wire.ReasonCompleted, e.Reason)
				assert.Equal(t, c.warnings, e.Warnings)
			})
		})
	}
}

// Fault row 33, SPEC.md, Cancel ladder: goose hangs for ever if it is cancelled with a question open, so every question is answered
// "cancelled" before session/cancel is sent, and what people answer later does nothing.
func TestOpenQuestionsEndAsCancelledBeforeTheCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		people := s.asks()
		var first, second person
		s.seat.Census = func() {
			_, settled := first.question.Settled()
			assert.False(t, settled, "what takes a while is not between an answer and the cancel: the agent could end its turn meanwhile")
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		s.begin(ctx, Goal{Text: "g"})
		s.write(permission("7", "allow_once", "reject_once"))
		s.write(permission("8", "allow_once", "reject_once"))
		first, second = <-people, <-people
		cancel(errors.New("deleted"))
		s.requireAnswer(`{"outcome":"cancelled"}`)
		s.requireAnswer(`{"outcome":"cancelled"}`)
		s.requireCancel()
		first.otherwise()
		require.NoError(t, second.question.Answer("late"))
		s.write(permission("9", "allow_once", "reject_once"))
		s.requireAnswer(`{"outcome":"cancelled"}`)
		assert.Empty(t, people, "nobody is asked any more")
		s.end("cancelled")
		assert.Equal(t, wire.OutcomeCancelled, (<-s.done).envelope.Outcome)
	})
}

// A question that is open when the turn ends is settled with it, whatever the agent made of it.
func TestNobodyIsAskedForATurnThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		people := s.asks()
		s.begin(t.Context(), Goal{Text: "g"})
		s.write(permission("7", "allow_once", "reject_once"))
		p := <-people
		s.say("never mind")
		s.end("end_turn")
		s.requireAnswer(`{"outcome":"cancelled"}`)
		<-s.done
		_, settled := p.question.Settled()
		assert.True(t, settled)
	})
}

// An agent that waits for people is not silent; it is again once they have answered.
func TestAnAgentThatWaitsForPeopleIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		people := s.asks()
		s.begin(t.Context(), Goal{Text: "g"})
		s.write(permission("7", "allow_once", "reject_once"))
		p := <-people
		time.Sleep(2*DefaultSilence + time.Minute)
		p.otherwise()
		answered := time.Now()
		s.requireAnswer(`{"outcome":"selected","optionId":"o1"}`)
		s.requireCancel()
		assert.Equal(t, DefaultSilence, time.Since(answered))
		s.end("cancelled")
		assert.Equal(t, wire.ReasonAgentSilent, (<-s.done).envelope.Reason)
	})
}

// However many questions an agent asks at once, a bounded number waits for people.
func TestQuestionsThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		people := s.asks()
		s.begin(t.Context(), Goal{Text: "g"})
		for range maxOpenQuestions {
			s.write(permission("7", "reject_once"))
		}
		s.write(permission("8", "allow_once", "reject_once"))
		s.requireAnswer(`{"outcome":"selected","optionId":"o1"}`)
		assert.Len(t, people, maxOpenQuestions)
		(<-people).otherwise()
		s.requireAnswer(`{"outcome":"selected","optionId":"o0"}`)
		s.write(permission("9", "reject_once"))
		synctest.Wait()
		assert.Len(t, people, maxOpenQuestions, "room again")
		for range maxOpenQuestions {
			(<-people).otherwise()
			s.requireAnswer(`{"outcome":"selected","optionId":"o0"}`)
		}
		s.say("x")
		s.end("end_turn")
		<-s.done
	})
}

func TestAModeThatAsksNothingIsWarnedOfWhenPeopleWereToBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.asks()
		s.begin(t.Context(), Goal{Text: "g"})
		s.update(`"sessionUpdate":"current_mode_update","currentModeId":"auto"`)
		s.say("x")
		s.end("end_turn")
		assert.Equal(t, []string{`the agent's mode "auto" asks for no permission, so nobody was asked`}, (<-s.done).envelope.Warnings)
	})
}
