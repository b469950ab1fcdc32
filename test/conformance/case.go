package conformance

import (
	"context"
	"fmt"
	"slices"
)

// Case checks one requirement of SPEC.md.
type Case struct {
	ID    string // as in SPEC.md, such as S-1
	Title string
	needs need
	tls   bool // applies to https targets only
	run   func(*trial)
}

// need is a command without which a case cannot be run.
type need int

const (
	nothing need = iota
	restarts
	drains
	starts
)

// Cases are all there are, in the order of SPEC.md. They do not depend on each other or on what the journal holds.
func Cases() []Case {
	return slices.Concat(wireCases(), strictCases(), identityCases(), challengeCases(), endpointCases(), feedCases(), cancelCases(), recordCases(),
		waitCases(), knownCases(), orderCases(), attemptCases(), codeCases(), envelopeCases(), tlsCases(), limitCases(), harnessCases())
}

// failure and inapplicable are what ends a case early; both are panics that try recovers.
type (
	failure      string
	inapplicable string
)

// try runs one case and puts away what it left.
func (k *Kit) try(ctx context.Context, c Case) (verdict Verdict, why string) {
	t := &trial{kit: k, ctx: ctx}
	verdict = Pass
	catch := func(f func()) (v Verdict, w string) {
		v = Pass
		defer func() {
			switch r := recover().(type) {
			case nil:
			case failure:
				v, w = Fail, string(r)
			case inapplicable:
				v, w = NotApplicable, string(r)
			default:
				panic(r)
			}
		}()
		f()
		return v, w
	}
	verdict, why = catch(func() {
		t.hello()
		c.run(t)
	})
	_, _ = catch(t.putAway)
	if t.drained {
		if v, w := catch(t.revive); v == Fail && verdict == Pass {
			verdict, why = v, w
		}
	}
	return verdict, why
}

// fail ends a case: what was expected and what came.
func (t *trial) fail(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

// check ends a case unless something holds.
func (t *trial) check(holds bool, format string, args ...any) {
	if !holds {
		t.fail(format, args...)
	}
}

// doesNotApply ends a case that the runtime's configuration leaves no room for.
func (t *trial) doesNotApply(format string, args ...any) {
	panic(inapplicable(fmt.Sprintf(format, args...)))
}
