package cli

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/hearthdev/hearth/cli/kube"
)

// R55: of several runs the first failure says what to do and how to exit, and none is said twice or as a bare code.
func TestOfSeveralFailuresEachIsSaidOnce(t *testing.T) {
	missing := &kube.Failure{Err: errors.New("there is no run a"), Next: "hearth runs", Code: kube.ExitFailed}
	waits := &kube.Failure{Code: kube.ExitWaiting} // all was said
	denied := &kube.Failure{Err: errors.New("no right"), Next: "ask", Code: kube.ExitUnavailable}

	assert.NoError(t, first(nil))
	assert.Equal(t, kube.ExitWaiting, kube.Code(first(errors.Join(nil, waits))))

	var all *kube.Failure
	assert.ErrorAs(t, first(errors.Join(errors.Join(missing, waits), denied)), &all)
	assert.Equal(t, "there is no run a\nno right", all.Error())
	assert.Equal(t, "hearth runs", all.Next)
	assert.Equal(t, kube.ExitFailed, all.Code)

	assert.ErrorAs(t, first(errors.Join(waits, waits)), &all)
	assert.NoError(t, all.Err)
	assert.Equal(t, kube.ExitWaiting, all.Code)
}
