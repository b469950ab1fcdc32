package attach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/forward"
	"github.com/hearthdev/hearth/test/process"
)

// printed is what logs prints, and what it says beside it.
func printed(t *testing.T, l *Logs, run *hearthv1.AgentRun) (out, said string, err error) {
	t.Helper()
	var o, s bytes.Buffer
	l.Out, l.RetryFor = &o, patience
	l.Say = func(format string, args ...any) { _, _ = fmt.Fprintf(&s, format+"\n", args...) }
	err = l.Print(t.Context(), run)
	return o.String(), s.String(), err
}

// R51: the transcript of a run that has ended, as people read it and byte by byte, from an entry on.
func TestTheTranscriptIsPrinted(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	run := p.deliver("review-1", "say: one\x1b[2J", "permit: allow_once,reject_once", "say: two")
	w := watch(t, p, run, nil)
	w.see(`ended: Succeeded`)
	w.tell(recorded(run))
	require.NoError(t, w.end())
	ended := recorded(run).Run

	out, said, err := printed(t, &Logs{Archive: p}, ended)
	require.NoError(t, err)
	assert.Empty(t, said)
	for _, part := range []string{"── run team/review-1 begins\n", "> say: one", "\none␛[2J", "[question] ", "[answer] reject_once (reject_once)", "two\n── run team/review-1 ended: Succeeded (Completed)\n"} {
		assert.Contains(t, out, part)
	}
	response, err := p.Get(t.Context(), forward.Pod{}, "/runs/review-1-uid/transcript")
	require.NoError(t, err)
	whole, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	_ = response.Body.Close()
	out, _, err = printed(t, &Logs{Archive: p, Raw: true}, ended)
	require.NoError(t, err)
	assert.Equal(t, string(whole), out)
	lines := strings.SplitAfter(out, "\n")
	out, _, err = printed(t, &Logs{Archive: p, Raw: true, After: 3}, ended)
	require.NoError(t, err)
	assert.Equal(t, strings.Join(lines[4:], ""), out[strings.Index(out, "\n")+1:], "behind the third entry")

	_, _, err = printed(t, &Logs{Archive: p}, (&pod{t: t}).unknown(run))
	assert.ErrorIs(t, err, errNoTranscript)
}

func (p *pod) unknown(run *hearthv1.AgentRun) *hearthv1.AgentRun {
	other := run.DeepCopy()
	other.UID = "another-uid"
	return other
}

// R51: it goes on until the run has ended, over a connection that was cut, without gap or double.
func TestATranscriptIsFollowedOverACut(t *testing.T) {
	t.Parallel()
	p, g := newPod(t), newGate(t)
	run := p.deliver("review-1", "say: one", g.wait(), "say: two")
	out, changes, ended := process.NewOutput(), make(chan Change), make(chan error, 1)
	l := &Logs{Archive: p, Out: out, Raw: true, Follow: true, RetryFor: patience, Changes: changes, Say: func(string, ...any) {}}
	go func() { ended <- l.Print(t.Context(), run) }()
	out.Await(t, `"text":"one"`)
	p.cut()
	g.open()
	out.Await(t, `"outcome":"Succeeded"`)
	changes <- recorded(run)
	require.NoError(t, <-ended)
	response, err := p.Get(t.Context(), forward.Pod{}, "/runs/review-1-uid/transcript")
	require.NoError(t, err)
	whole, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	_ = response.Body.Close()
	assert.Equal(t, string(whole), out.String())
}

// shelf is an Archive of one answer.
type shelf struct {
	state  error
	status int
	kind   string
	body   string
	log    string
}

func (s shelf) Check(context.Context, forward.Pod) error { return s.state }
func (s shelf) Judge(err error) error                    { return err }
func (s shelf) Get(context.Context, forward.Pod, string) (*http.Response, error) {
	return &http.Response{StatusCode: s.status, Header: http.Header{"Content-Type": {s.kind}}, Body: io.NopCloser(strings.NewReader(s.body))}, nil
}

func (s shelf) Log(context.Context, forward.Pod) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(s.log)), nil
}

// closing is the Pod of a run that just ended: it is Running for the first look, and answers no more.
type closing struct {
	shelf
	looks *int
}

func (c closing) Check(ctx context.Context, p forward.Pod) error {
	if *c.looks++; *c.looks <= 2 {
		return nil
	}
	return c.shelf.Check(ctx, p)
}

func (c closing) Get(context.Context, forward.Pod, string) (*http.Response, error) {
	return nil, errors.New("pod not found")
}

// A one-shot run's record may be there before its Pod's phase says that it ended.
func TestAPodThatEndsBeforeItCanBeAskedHasALogStill(t *testing.T) {
	run := &hearthv1.AgentRun{}
	run.Name, run.UID, run.Spec.AgentRef.Name = "fix-1", "uid", "fixer"
	run.Status.PodName, run.Status.PodUID, run.Status.Phase = "fix-1", "pod", hearthv1.PhaseRunning
	pod := shelf{state: &forward.NotRunning{Pod: "fix-1", Phase: corev1.PodSucceeded}, log: "the answer"}
	out, said, err := printed(t, &Logs{Archive: closing{pod, new(int)}, RetryFor: time.Minute}, recorded(run).Run)
	require.NoError(t, err)
	assert.Equal(t, "the answer", out)
	assert.Contains(t, said, "this is its log")
}

// What cannot be printed is said with its reason; a Pod that has ended has a log still, and it is said that it is one.
func TestWhyThereIsNoTranscript(t *testing.T) {
	run := &hearthv1.AgentRun{}
	run.Name, run.UID, run.Spec.AgentRef.Name = "fix-1", "uid", "fixer"
	run.Status.PodName, run.Status.PodUID, run.Status.Phase = "fix-1", "pod", hearthv1.PhaseRunning
	ended := recorded(run).Run
	problem := func(code string) string { return `{"code":"` + code + `","detail":"it\u001b[2J is so"}` }
	for want, s := range map[string]shelf{
		"keeps no transcript of it":        {status: 404, body: problem("unknown")},
		"older than transcripts":           {status: 404, body: problem("not_found")},
		"or none of ours":                  {status: 200, kind: "text/html", body: "<html>"},
		"older than transcripts, or none":  {status: 200, kind: mediaJSON, body: "{}\n"},
		"refused the key":                  {status: 401, body: problem("unauthenticated")},
		"answered 400: it␛[2J is so":       {status: 400, body: problem("malformed")},
		"with it what was said there":      {state: fmt.Errorf("Pod fix-1 %w", forward.ErrGone)}, //nolint:staticcheck // a kind's name
		"without it the Pod's log":         {state: &forward.NotRunning{Pod: "fix-1", Phase: corev1.PodFailed}},
		"has said nothing yet (Queued: x)": {},
	} {
		l, of := &Logs{Archive: s, Raw: strings.Contains(want, "log")}, ended
		if strings.Contains(want, "yet") {
			of = run.DeepCopy()
			of.Status.Phase = hearthv1.PhasePending
			of.Status.Conditions = nil
			want = "has said nothing yet (not looked at yet)"
		}
		out, _, err := printed(t, l, of)
		assert.ErrorContains(t, err, want)
		assert.Empty(t, out)
	}
	pod := shelf{state: &forward.NotRunning{Pod: "fix-1", Phase: corev1.PodSucceeded}, log: "harness: ok\nthe answer\x1b[2J"}
	out, said, err := printed(t, &Logs{Archive: pod, Terminal: true}, ended)
	require.NoError(t, err)
	assert.Equal(t, "harness: ok\nthe answer␛[2J", out)
	assert.Contains(t, said, "this is its log")
	out, _, err = printed(t, &Logs{Archive: pod}, ended)
	require.NoError(t, err)
	assert.Equal(t, pod.log, out, "no terminal: as it is")
}

// A transcript's own lines are bytes for a pipe; a terminal reads controls in them that JSON lets stand (ECMA-48, C1) and is spared those.
func TestRawLinesCommandNoTerminal(t *testing.T) {
	line := []byte("{\"seq\":1,\"frame\":\"\u009b2J\u009d52;c;ZXZpbA==\u009c\u202e\"}\n")
	for _, header := range []bool{true, false} {
		var pipe, screen bytes.Buffer
		require.NoError(t, (&Logs{Out: &pipe, Raw: true}).line(bytes.Clone(line), header))
		require.NoError(t, (&Logs{Out: &screen, Raw: true, Terminal: true}).line(bytes.Clone(line), header))
		assert.Equal(t, string(line), pipe.String())
		assert.NotRegexp(t, `[\x{80}-\x{9f}\x{202e}]`, screen.String())
		assert.Contains(t, screen.String(), "52;c;")
	}
}

// silent is an Archive whose first answer says nothing for a while, breaks off, and whose second is whole.
type silent struct {
	*pod
	quiet time.Duration
	asked int
}

const transcriptHeader = `{"hearth":{}}` + "\n"

func (s *silent) Check(context.Context, forward.Pod) error { return nil }
func (s *silent) Get(context.Context, forward.Pod, string) (*http.Response, error) {
	s.asked++
	r, w := io.Pipe()
	first := s.asked == 1
	go func() {
		_, _ = io.WriteString(w, transcriptHeader)
		if !first {
			_ = w.Close()
			return
		}
		for range 4 {
			time.Sleep(s.quiet / 4)
			_, _ = io.WriteString(w, "\n")
		}
		_ = w.CloseWithError(io.ErrUnexpectedEOF)
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {mediaJSON}}, Body: r}, nil
}

// --retry-for begins when the connection is lost, however long the agent said nothing before.
func TestAnAgentThatSaysNothingUsesUpNoRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &silent{quiet: time.Hour}
		l := &Logs{Archive: s, Out: io.Discard, Raw: true, RetryFor: time.Minute, Say: func(string, ...any) {}}
		run := &hearthv1.AgentRun{}
		run.Spec.AgentRef.Name, run.Spec.Delivery = "reviewer", &hearthv1.DeliverySpec{}
		run.Status.Phase, run.Status.PodName, run.Status.PodUID = hearthv1.PhaseRunning, "reviewer-1", podUID
		run.Status.Delivery = &hearthv1.DeliveryStatus{Attempt: 1, PodName: "reviewer-1", PodUID: podUID}
		require.NoError(t, l.Print(t.Context(), run))
		assert.Equal(t, 2, s.asked)
	})
}
