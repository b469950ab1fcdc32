package attach

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/test/agent/agenttest"
)

// 1,000 updates of 1 KiB.
const benchUpdates = 1000

var benchGoal = strings.Repeat("say: "+strings.Repeat("x", 1<<10)+"\\n", benchUpdates)

// scripted starts the scripted agent.
func scripted(b *testing.B) (io.WriteCloser, io.ReadCloser) {
	b.Helper()
	command := exec.CommandContext(b.Context(), agenttest.Build(b))
	removeAgent = agenttest.Remove // at the very end: a benchmark may be repeated
	in, err := command.StdinPipe()
	require.NoError(b, err)
	out, err := command.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, command.Start())
	b.Cleanup(func() {
		_ = in.Close()
		_ = command.Wait()
	})
	return in, out
}

// BenchmarkRouterHop is P5: a prompt with 1,000 updates of 1 KiB straight to the agent, and through the router, the hub with its
// transcript on disk, and one client. One after the other in one run, so that the ratio means something; it is reported as x/direct.
func BenchmarkRouterHop(b *testing.B) {
	in, out := scripted(b)
	direct := &plain{b: b, in: in, lines: out}
	direct.ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, 1)
	direct.ask(`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/"}}`, 1)
	session := direct.session

	h := newHouse(b)
	in2, out2 := scripted(b)
	conn := router.Open(router.Config{In: out2, Out: in2, Now: time.Now, Cause: func() error { return io.EOF }, Watcher: h.hub.Watch(0)})
	b.Cleanup(func() {
		conn.Close()
		<-conn.Done()
	})
	agent, err := conn.Initialize(b.Context(), "v")
	require.NoError(b, err)
	h.hub.Rose(0, conn, agent)
	g := h.connect(Steer)
	opened := g.ask("session/new", `{"cwd":"/here","mcpServers":[]}`)
	mine := opened[strings.Index(opened, `"sessionId":"`)+len(`"sessionId":"`):]
	mine = mine[:strings.IndexByte(mine, '"')]

	var straight, through time.Duration
	for b.Loop() {
		begun := time.Now()
		direct.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"%s"}]}}`, session, benchGoal), benchUpdates+1)
		straight += time.Since(begun)
		begun = time.Now()
		g.send("session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":"%s"}]}`, mine, benchGoal))
		for range benchUpdates + 1 {
			if _, err := g.Next(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		through += time.Since(begun)
	}
	b.ReportMetric(float64(through)/float64(straight), "x/direct")
	b.ReportMetric(float64(straight.Milliseconds())/float64(b.N), "direct-ms/op")
}

// plain is a client that talks to the agent itself.
type plain struct {
	b       *testing.B
	in      io.Writer
	lines   io.Reader
	session string
}

// ask sends a line and reads as many.
func (p *plain) ask(line string, n int) {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.b.Fatal(err)
	}
	chunk := make([]byte, 64<<10)
	for n > 0 {
		k, err := p.lines.Read(chunk)
		if err != nil {
			p.b.Fatal(err)
		}
		n -= strings.Count(string(chunk[:k]), "\n")
		if at := strings.Index(string(chunk[:k]), `"sessionId":"`); at >= 0 && p.session == "" {
			rest := string(chunk[at+len(`"sessionId":"`) : k])
			p.session = rest[:strings.IndexByte(rest, '"')]
		}
	}
}

// BenchmarkFanOut is P8: what one more update of 1 KiB costs with so many viewers who read.
func BenchmarkFanOut(b *testing.B) {
	for _, viewers := range []int{1, 10, 100} {
		b.Run(fmt.Sprint(viewers), func(b *testing.B) {
			h := newHouse(b)
			a := h.rise(0, "", false)
			a.begin("r1", "u1")
			done := make(chan struct{})
			for range viewers {
				g := h.connect(View)
				g.load("r1")
				go func() {
					for {
						m, err := g.Next(b.Context())
						if err != nil || bytes.Contains(m.Data[:min(len(m.Data), 200)], []byte(`"text":"end`)) {
							break
						}
					}
					done <- struct{}{}
				}()
			}
			line := says("r1", strings.Repeat("x", 1<<10)) + "\n"
			b.SetBytes(int64(len(line) * viewers))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := io.WriteString(a.out, line); err != nil {
					b.Fatal(err)
				}
			}
			a.write(says("r1", "end"))
			for range viewers {
				<-done
			}
		})
	}
}
