package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/standing"
)

// requirePoint asserts a point's state and words; what is wrong has to say what to do, and nothing else has.
func requirePoint(t *testing.T, p Point, state State, words ...string) {
	t.Helper()
	require.Equal(t, state, p.State, "%+v", p)
	for _, w := range words {
		assert.Contains(t, p.Found+"\n"+p.Do, w)
	}
	assert.Equal(t, state == Warning || state == Failed, p.Do != "", "%+v", p)
	assert.NotEmpty(t, p.Name)
	assert.NotEmpty(t, p.Found)
}

func TestAReportIsForPeopleAndForPrograms(t *testing.T) {
	r := NewReport([]string{"s3cret", "s3cret-longer", "abc", ""})
	r.Add(ok("one", "it is %s", "so"), skipped("two", "not here"))
	assert.False(t, r.Failed())
	r.Add(warning("three", "abc: first\nsecond s3cret-longer\x1b[2J", "forget s3cret"))
	assert.False(t, r.Failed(), "a warning is none")
	r.Add(Judge("four", errors.New("<broken>"), "mend it", "unused"), Judge("five", nil, "unused", "whole"))
	assert.True(t, r.Failed())
	var table bytes.Buffer
	require.NoError(t, r.Table(&table))
	assert.Equal(t, `one    ok       it is so
two    skipped  not here
three  warning  abc: first
                second [redacted] [2J
                -> forget [redacted]
four   failed   <broken>
                -> mend it
five   ok       whole

2 ok, 1 warnings, 1 failed, 1 skipped
`, table.String())
	var encoded bytes.Buffer
	require.NoError(t, r.JSON(&encoded))
	assert.NotContains(t, encoded.String(), "s3cret")
	var back struct {
		OK     bool
		Points []Point
	}
	require.NoError(t, json.Unmarshal(encoded.Bytes(), &back))
	assert.False(t, back.OK)
	assert.Equal(t, r.Points, back.Points)
	assert.Contains(t, encoded.String(), `"found": "<broken>"`)
	assert.Error(t, r.Table(broken{}), "what cannot be written is told")
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWhereItRuns(t *testing.T) {
	requirePoint(t, User(0, 0), Warning, "root", "runAsNonRoot")
	requirePoint(t, User(65532, 65532), OK, "65532:65532")
	requirePoint(t, RootFileSystem(Place{ReadOnly: true, Contained: true}), OK)
	requirePoint(t, RootFileSystem(Place{Contained: true}), Warning, "readOnlyRootFilesystem")
	requirePoint(t, RootFileSystem(Place{}), Skipped)
	requirePoint(t, FirstProcess(Place{PID: 1}, 0), OK)
	requirePoint(t, FirstProcess(Place{PID: 1}, 2), Failed, "2 dead processes")
	requirePoint(t, FirstProcess(Place{PID: 7, ParentPID: 1, Parent: "sh"}, 0), Warning, "SIGTERM", "exec")
	requirePoint(t, FirstProcess(Place{PID: 7, ParentPID: 1, Parent: "systemd"}, 0), Skipped)
	requirePoint(t, FirstProcess(Place{PID: 7, ParentPID: 6, Parent: "sh"}, 0), Skipped, "process 7")

	here := Look(func(string) string { return "" })
	assert.Equal(t, os.Getpid(), here.PID)
	assert.NotEmpty(t, here.Parent)
	assert.True(t, Look(func(string) string { return "10.0.0.1" }).Contained)
}

func TestADirectoryIsTriedAndLeftAsItWas(t *testing.T) {
	root := t.TempDir()
	requirePoint(t, Directory("d", root, "mount it"), OK, root)
	requirePoint(t, Directory("d", filepath.Join(root, "a", "b"), "mount it"), OK)
	file := filepath.Join(root, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	requirePoint(t, Directory("d", file, "mount it"), Failed, file, "mount it")
	requirePoint(t, Directory("d", filepath.Join(file, "below"), "mount it"), Failed, "not a directory")
	requirePoint(t, Directory("d", "/proc/nowhere", "mount it"), Failed, "/proc/nowhere")
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "only the file is there")
}

func TestACommandThatTheKernelCannotStartIsExplained(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) []string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o700)) //nolint:gosec // it is to be executable
		return []string{path}
	}
	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	foreign := bytes.Clone(self)
	foreign[18], foreign[19] = 0xf3, 0 // e_machine: RISC-V
	env := []string{"PATH=/usr/bin:/bin"}
	for _, c := range []struct {
		command []string
		state   State
		says    string
	}{
		{nil, Skipped, "somebody else's server"},
		{[]string{"sh", "-c", "x"}, OK, "/sh"},
		{[]string{"/proc/self/exe"}, OK, "/proc/self/exe"},
		{write("script", "#!/bin/sh\n"), OK, "script"},
		{write("by env", "#!/usr/bin/env sh\n"), OK, "by env"},
		{[]string{"no-such-agent"}, Failed, `"no-such-agent" is not in PATH (/usr/bin:/bin)`},
		{[]string{dir}, Failed, "is not an executable file"},
		{write("no interpreter", "#!/no/such/node\n"), Failed, "its interpreter /no/such/node is not there"},
		{write("no interpreter by env", "#!/usr/bin/env no-such-node\n"), Failed, "its interpreter no-such-node is not in PATH"},
		{write("nameless", "#!\n"), Failed, "names no interpreter"},
		{write("text", "hello"), Failed, "exec format error"},
		{write("empty", ""), Failed, "exec format error"},
		{write("foreign", string(foreign)), Failed, "is a program for EM_RISCV, and this is"},
	} {
		requirePoint(t, Program(c.command, env), c.state, c.says)
	}
	if loader := "/lib64/ld-linux-x86-64.so.2\x00"; runtime.GOARCH == "amd64" {
		sh, err := os.ReadFile("/bin/sh") // a program of the distribution, linked dynamically
		require.NoError(t, err)
		require.Contains(t, string(sh), loader)
		lost := bytes.Replace(sh, []byte(loader), []byte("/lib64/no-linux-x86-64.so.2\x00"), 1)
		requirePoint(t, Program(write("no loader", string(lost)), env), Failed, "its loader /lib64/no-linux-x86-64.so.2 is not there")
	}
}

func TestWhatKnownAgentsNeed(t *testing.T) {
	none := func(string) string { return "" }
	bare, full := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(full, "bin"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(full, "my"), 0o700))
	for _, file := range []string{"bin/sh", "my/certs.pem"} {
		require.NoError(t, os.WriteFile(filepath.Join(full, file), []byte("x"), 0o600))
	}
	for _, c := range []struct {
		command      []string
		root, cert   string
		certs, shell State
	}{
		{[]string{"/usr/bin/goose", "acp"}, bare, "", Failed, Failed},
		{[]string{"goose", "acp"}, full, "/my/certs.pem", OK, OK},
		{[]string{"goose", "acp"}, full, "/my/other.pem", Failed, OK},
		{[]string{"other"}, bare, "", Warning, Skipped},
		{[]string{"other"}, full, "/my/certs.pem", OK, Skipped},
		{nil, bare, "", Skipped, Skipped},
	} {
		points := Needs(c.command, c.root, func(string) string { return c.cert })
		require.Len(t, points, 2)
		requirePoint(t, points[0], c.certs)
		requirePoint(t, points[1], c.shell)
	}
	assert.Contains(t, Needs([]string{"goose"}, bare, none)[0].Found, "Provider not set", "the words that people will look for")
}

func TestAPortIsTried(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := taken.Addr().String()
	requirePoint(t, Port(t.Context(), "p", address, "HEARTH_X"), Failed, address+" is in use", "HEARTH_X")
	require.NoError(t, taken.Close())
	requirePoint(t, Port(t.Context(), "p", address, "HEARTH_X"), OK, address)
	requirePoint(t, Port(t.Context(), "p", address, "HEARTH_X"), OK, "is free") // it was let go
	requirePoint(t, Port(t.Context(), "p", "nowhere:x", "HEARTH_X"), Failed, "HEARTH_X")
}

func TestSecretsThatTheAgentWouldSeeAreNamedAndNotShown(t *testing.T) {
	ours := map[string]string{"HEARTH_DELIVERY_TOKEN": "root-secret", "EMPTY": ""}
	requirePoint(t, Exposed([]string{"PATH=/bin", "KEYBOARD=de"}, []string{"goose"}, ours), OK, "nothing else")
	requirePoint(t, Exposed([]string{"OPENAI_API_KEY=sk", "GH_TOKEN=x", "A_TOKEN=", "PATH=/bin"}, nil, ours), OK, "see GH_TOKEN, OPENAI_API_KEY")
	p := Exposed([]string{"URL=http://root-secret@x", "PATH=/bin"}, []string{"agent", "--key=root-secret"}, ours)
	requirePoint(t, p, Failed, "URL has the value of HEARTH_DELIVERY_TOKEN", "command line has the value of HEARTH_DELIVERY_TOKEN")
	assert.NotContains(t, p.Found+p.Do, "root-secret")
	for name, want := range map[string]bool{"OPENAI_API_KEY": true, "DB.PASSWORD": true, "MONKEY": false, "GOOSE_MODEL": false, "apikey": true} {
		assert.Equal(t, want, Sensitive(name), name)
	}
}

func TestATrialIsJudgedStepByStep(t *testing.T) {
	const grace = 5 * time.Second
	agent := router.Agent{Name: "goose", Version: "1.52.0", Closes: true, Answer: []byte(
		`{"agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":true,"audio":false},"sessionCapabilities":{"close":{},"list":null}}}`)}
	good := standing.Trial{Answered: true, Opened: true, Agent: agent, Ready: time.Second, Terminated: 50 * time.Millisecond}
	points := Agent(good, grace)
	require.Len(t, points, 5)
	for _, p := range points {
		requirePoint(t, p, OK)
	}
	assert.Equal(t, "protocolVersion 1; goose 1.52.0\nprompts with image, session/close, session/load", points[1].Found)
	assert.Equal(t, "opened in 1000 ms, and closed", points[2].Found)

	oops := errors.New("oops")
	for at, c := range map[string]struct {
		trial func(*standing.Trial)
		state State
		says  string
	}{
		"0 start": {func(t *standing.Trial) { *t = standing.Trial{Start: oops} }, Failed, "by hand"},
		"0 libraries": {func(t *standing.Trial) {
			*t = standing.Trial{Start: errors.New("libx.so: cannot open shared object file: error while loading shared libraries")}
		}, Failed, "ldd"},
		"0 key":            {func(t *standing.Trial) { t.KeyLeft = oops }, Warning, "goose acp"},
		"0 beside":         {func(t *standing.Trial) { t.Beside = true }, OK, "somebody else's"},
		"1 greeting":       {func(t *standing.Trial) { *t = standing.Trial{Greeting: oops} }, Failed, "version 1, on stdin and stdout"},
		"1 nameless":       {func(t *standing.Trial) { t.Agent = router.Agent{} }, OK, "without a name"},
		"2 not greeted":    {func(t *standing.Trial) { *t = standing.Trial{Greeting: oops} }, Skipped, "not greeted"},
		"2 session":        {func(t *standing.Trial) { t.Session = oops }, Failed, "GOOSE_PROVIDER"},
		"2 closing":        {func(t *standing.Trial) { t.Closing = oops }, Warning, "session/close failed: oops"},
		"2 closes nothing": {func(t *standing.Trial) { t.Agent.Closes = false }, OK, "opened in 1000 ms"},
		"3 no answer":      {func(t *standing.Trial) { *t = standing.Trial{Greeting: oops} }, Skipped, "none"},
		"1 libraries": {func(t *standing.Trial) {
			*t = standing.Trial{Greeting: errors.New("goose: error while loading shared libraries: libx.so")}
		}, Failed, "ldd"},
		"4 gone":            {func(t *standing.Trial) { t.Gone = true }, Skipped, "by itself"},
		"3 lines":           {func(t *standing.Trial) { t.Broken = 3 }, Warning, "3 lines"},
		"4 survivors":       {func(t *standing.Trial) { t.End = oops }, Failed, "SIGKILL"},
		"4 killed":          {func(t *standing.Trial) { t.Killed = true }, Warning, "within 5s"},
		"4 leaves":          {func(t *standing.Trial) { t.Terminated = grace }, Warning, "left something"},
		"4 beside":          {func(t *standing.Trial) { t.Beside = true }, Skipped, "left alone"},
		"4 when it is mute": {func(t *standing.Trial) { *t = standing.Trial{Greeting: oops} }, OK, "ended it"},
	} {
		trial := good
		c.trial(&trial)
		points := Agent(trial, grace)
		require.Len(t, points, 5, at)
		var n int
		_, err := fmt.Sscan(at, &n)
		require.NoError(t, err)
		requirePoint(t, points[n], c.state, c.says)
	}
	for _, p := range append(Untried("so"), Agent(standing.Trial{Start: oops}, grace)[1:]...) {
		requirePoint(t, p, Skipped)
	}
}

func TestAnOrphanIsSeenReaped(t *testing.T) {
	env := []string{"PATH=" + os.Getenv("PATH")}
	assert.Zero(t, Orphan(t.Context(), []string{"sh", "-c", "sleep 0.05 & exit 0"}, env))
	assert.Equal(t, 1, Orphan(t.Context(), []string{"sh", "-c", "exit 1"}, env), "it could not be run")
	assert.Equal(t, 1, Orphan(t.Context(), []string{"no-such-program"}, env))
}
