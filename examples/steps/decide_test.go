package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	validators "k8s.io/apimachinery/pkg/util/validation"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const yes, no = `{"fixed": true}`, `{"fixed": false, "why": "it still answers 500"}`

func did(name string, attempt int32, output string) Step {
	return Step{Name: name, Attempt: attempt, Reason: hearthv1.ReasonCompleted, Succeeded: true, Output: output}
}

func lost(name string, attempt int32, reason string) Step {
	return Step{Name: name, Attempt: attempt, Reason: reason}
}

// R44: analyze → execute → verify → escalate.
func TestWhatComesAfterWhat(t *testing.T) {
	analyzed, executed := did(analyze, 1, "the pool is too small"), did(execute, 1, "made it larger")
	for name, c := range map[string]struct {
		steps []Step
		want  string
	}{
		"nothing yet":                     {nil, "analyze 1"},
		"analyzed":                        {[]Step{analyzed}, "execute 1"},
		"not analyzed":                    {[]Step{lost(analyze, 1, "AgentError")}, "escalate 1"},
		"executed":                        {[]Step{analyzed, executed}, "verify 1"},
		"a failed fix is looked at":       {[]Step{analyzed, lost(execute, 1, hearthv1.ReasonInterrupted)}, "verify 1"},
		"a fix that may still go on":      {[]Step{analyzed, lost(execute, 1, hearthv1.ReasonTargetLost)}, "escalate 1"},
		"a fix that nobody knows of":      {[]Step{analyzed, lost(execute, 1, hearthv1.ReasonOutcomeUnknown)}, "escalate 1"},
		"a fix that was stopped":          {[]Step{analyzed, lost(execute, 1, hearthv1.ReasonCancelled)}, "escalate 1"},
		"a fix whose stop is unconfirmed": {[]Step{analyzed, lost(execute, 1, hearthv1.ReasonCancelUnconfirmed)}, "escalate 1"},
		"a fix whose record is gone":      {[]Step{analyzed, lost(execute, 1, recordGone)}, "escalate 1"},
		"somebody else's run":             {[]Step{analyzed, lost(execute, 1, nameTaken)}, "escalate 1"},
		"verified":                        {[]Step{analyzed, executed, did(verify, 1, yes)}, resolved},
		"not fixed":                       {[]Step{analyzed, executed, did(verify, 1, no)}, "execute 2"},
		"no verdict":                      {[]Step{analyzed, executed, did(verify, 1, "looks fine")}, "execute 2"},
		"a yes of a verifier that failed": {[]Step{analyzed, executed, {Name: verify, Attempt: 1, Reason: "InvalidOutput", Output: yes}}, "execute 2"},
		"a verifier that was stopped":     {[]Step{analyzed, executed, lost(verify, 1, hearthv1.ReasonCancelled)}, "escalate 1"},
		"not fixed by the last attempt":   {[]Step{analyzed, executed, did(verify, 1, no), did(execute, 2, ""), did(verify, 2, no)}, "escalate 1"},
		"people were told":                {[]Step{analyzed, did(escalate, 1, "ticket 7")}, escalated},
		"people could not be told":        {[]Step{analyzed, lost(escalate, 1, "AgentError")}, failed},
	} {
		t.Run(name, func(t *testing.T) {
			next, phase := decide(2, c.steps)
			got := phase
			if next != nil {
				assert.Equal(t, working, phase)
				got = fmt.Sprint(next.Name, " ", next.Attempt)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestAStepIsToldWhatTheEarlierOnesSaid(t *testing.T) {
	steps := []Step{did(analyze, 1, "the pool"), did(execute, 1, "larger"), did(verify, 1, no), {Name: execute, Attempt: 2}}
	assert.Equal(t, map[string]string{"problem": "P", "analysis": "the pool", "verdict": no}, parameters("P", steps))
	assert.Equal(t, map[string]string{"problem": "P"}, parameters("P", []Step{{Name: analyze}}))
	assert.Equal(t, map[string]string{"problem": "P", "change": "larger"}, parameters("P", append(slices.Clone(steps[:2]), Step{Name: verify})))
	assert.Equal(t, map[string]string{"problem": "P", "history": "analyze 1: Completed: the pool\nexecute 1: Completed: larger\n"},
		parameters("P", append(slices.Clone(steps[:2]), Step{Name: escalate})))
}

// However it goes, it ends, within what the schema takes, and all that was said fits into a goal and its parameters.
func TestItAlwaysEnds(t *testing.T) {
	for _, s := range []Step{did("", 0, no), lost("", 0, "AgentError")} {
		r := Remediation{Spec: Spec{Attempts: 5}}
		r.UID = types.UID("7d3f8a52-3d0e-4c6c-9d0b-0123456789ab")
		for r.advance(); r.Status.Phase == working; r.advance() {
			require.LessOrEqual(t, len(r.Status.Steps), 12, "status.steps has maxItems 12")
			last := r.open()
			last.Reason, last.Succeeded, last.Output = s.Reason, s.Succeeded, strings.Repeat("x", maxOutput)
			assert.Empty(t, validators.IsDNS1035Label(last.Run), "an Agent of mode Task names a Pod after its run")
			assert.NotRegexp(t, `^.+-([0-9]{1,4}|[0-9]{8,10})$`, last.Run, "the controller's own names")
			assert.Empty(t, validation.NameIsDNSSubdomain(last.Run, false))
			size := 0
			for _, value := range parameters(strings.Repeat("x", 8192), r.Status.Steps) {
				size += 2 * len(value) // in the goal, too
			}
			assert.Less(t, size, hearthv1.MaxGoalBytes)
		}
	}
}

func TestAnOutputIsCutBetweenRunes(t *testing.T) {
	var s Step
	run := &hearthv1.AgentRun{}
	run.Status.Output = &hearthv1.Output{Value: "x" + strings.Repeat("é", maxOutput)}
	s.take(run)
	assert.Empty(t, s.Output, "it has not ended")
	run.Status.CompletionTime = new(metav1.NowMicro())
	s.take(run)
	assert.Equal(t, "x"+strings.Repeat("é", maxOutput/2-1), s.Output)
}

// The example is read as a whole: under 200 lines of code, comments and blank lines apart, what is generated apart.
func TestTheOperatorHasUnder200Lines(t *testing.T) {
	lines := 0
	for _, name := range []string{"main.go", "decide.go", "remediation.go"} {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok {
				field.Doc, field.Comment = nil, nil
			}
			return true
		})
		var text bytes.Buffer
		require.NoError(t, format.Node(&text, set, file))
		for line := range strings.Lines(text.String()) {
			if strings.TrimSpace(line) != "" {
				lines++
			}
		}
	}
	assert.Less(t, lines, 200)
}
