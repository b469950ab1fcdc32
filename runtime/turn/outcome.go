package turn

import (
	"fmt"

	"github.com/coder/acp-go-sdk"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// ending is how a prompt came to its end.
type ending string

const (
	answered   ending = "answered"   // with a stop reason
	errored    ending = "errored"    // with a JSON-RPC error
	crashed    ending = "crashed"    // the agent process went away by itself
	forced     ending = "forced"     // the agent process was ended by the harness
	unreadable ending = "unreadable" // the answer was over the line limit
)

// demand is why the harness asked the agent to stop.
type demand string

const (
	noDemand  demand = ""
	cancelled demand = "cancelled"
	deadline  demand = "deadline"
	silence   demand = "silence"
	lostPart  demand = "lost part" // a message over the line limit was skipped
	// overBudget: what the agent told of its usage is beyond the run's budget.
	overBudget demand = "over budget"
)

// facts are all that a judgement rests on.
type facts struct {
	agent    string
	ending   ending
	ended    bool // the agent process was, or has, ended
	demand   demand
	detail   string // what the demand or the error says, in words
	stop     acp.StopReason
	text     bool   // the agent said something
	last     string // its last message, or enough of it
	measured bool   // it reported tokens of a model call
	activity bool   // it showed any other sign of a model call: a message, a thought, a tool call, a plan, a context in use
	tools    int
}

// verdict is how the run ended, why, and what a reader should be wary of.
type verdict struct {
	outcome  wire.Outcome
	reason   wire.Reason
	message  string
	warnings []string
	answer   string // the JSON that was asked for
}

// demandVerdicts is what a demand amounts to when the agent gave in to it.
var demandVerdicts = map[demand]verdict{
	cancelled: {outcome: wire.OutcomeCancelled, reason: wire.ReasonCancelled},
	deadline:  {outcome: wire.OutcomeFailed, reason: wire.ReasonDeadlineExceeded},
	silence:   {outcome: wire.OutcomeFailed, reason: wire.ReasonAgentSilent},
	lostPart:  {outcome: wire.OutcomeFailed, reason: wire.ReasonResultTooLarge},

	overBudget: {outcome: wire.OutcomeFailed, reason: wire.ReasonBudgetExceeded},
}

func failed(reason wire.Reason, message string, warnings ...string) verdict {
	return verdict{outcome: wire.OutcomeFailed, reason: reason, message: message, warnings: warnings}
}

// judge is the outcome table (SPEC.md, Harness): a stop reason alone proves nothing, because agents answer end_turn when
// their provider could not be reached and when their own limit was hit.
func judge(f facts) verdict {
	if f.demand != noDemand && (f.demand == lostPart || f.demand == overBudget || f.ending != answered || f.stop == acp.StopReasonCancelled) {
		v := demandVerdicts[f.demand]
		v.message = f.detail
		if f.ending == crashed {
			v.warnings = append(v.warnings, "the agent process went away while it was being stopped")
		}
		if f.ending == forced {
			v.warnings = append(v.warnings, "the agent did not stop when asked and was ended by force")
		}
		if f.demand == overBudget && f.ending == answered && f.stop != acp.StopReasonCancelled {
			v.warnings = append(v.warnings, fmt.Sprintf("the agent ended by itself (%.32q) before it was stopped", f.stop))
		}
		return v
	}
	switch f.ending {
	case errored:
		return failed(wire.ReasonAgentError, f.detail)
	case crashed, forced:
		return failed(wire.ReasonAgentCrashed, f.detail)
	case unreadable:
		return failed(wire.ReasonResultTooLarge, f.detail)
	case answered:
	}
	v := judgeStop(f)
	if f.demand != noDemand {
		v.warnings = append(v.warnings, fmt.Sprintf("the agent ended by itself (%.32q) before it was stopped: %s", f.stop, f.demand))
	}
	return v
}

// judgeStop judges an answer with a stop reason.
func judgeStop(f facts) verdict {
	switch f.stop {
	case acp.StopReasonEndTurn:
		return judgeEndTurn(f)
	case acp.StopReasonMaxTokens:
		return failed(wire.ReasonLimitReached, "the model's output limit was reached")
	case acp.StopReasonMaxTurnRequests:
		return failed(wire.ReasonLimitReached, "the agent's limit of model requests in one turn was reached")
	case acp.StopReasonRefusal:
		return failed(wire.ReasonRefused, "the agent refused the goal")
	case acp.StopReasonCancelled:
		return failed(wire.ReasonAgentError, "the agent ended the turn as cancelled, which nobody had asked for")
	default:
		return failed(wire.ReasonAgentError, fmt.Sprintf("the agent ended the turn with an unknown stop reason %.64q", f.stop))
	}
}

// noticeMessages says what a recognised text means.
var noticeMessages = map[wire.Reason]string{
	wire.ReasonLimitReached: "the agent reached its own limit of actions in one turn",
	wire.ReasonAgentError:   "the agent could not get an answer from its model provider",
	wire.ReasonRefused:      "the model provider refused the goal",
}

// judgeEndTurn looks for evidence that end_turn is success.
func judgeEndTurn(f facts) verdict {
	if n, ok := profileOf(f.agent).recognise(f.last, f.measured); ok {
		return failed(n.reason, noticeMessages[n.reason],
			fmt.Sprintf("heuristic: the agent answered end_turn, but its last message begins %q", n.prefix))
	}
	switch {
	case !f.measured && !f.activity:
		return failed(wire.ReasonNoEvidence, "the agent answered end_turn without any sign of a model call")
	case !f.text && !f.measured && f.tools == 0:
		return failed(wire.ReasonNoEvidence, "the agent answered end_turn and said and did nothing")
	}
	v := verdict{outcome: wire.OutcomeSucceeded, reason: wire.ReasonCompleted}
	if !f.text {
		v.warnings = append(v.warnings, "the agent said nothing")
	}
	return v
}
