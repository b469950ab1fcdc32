package peers

import (
	"context"
	"encoding/json"
	"os/exec"
	"strconv"
	"sync"

	acp "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"
)

// gopher is a client made of coder/acp-go-sdk.
type gopher struct {
	*peer
	mu   sync.Mutex
	open map[string]chan acp.RequestPermissionResponse
}

// coder starts hearth connect and speaks to it with coder/acp-go-sdk.
func coder(h *harness, key string) *peer {
	h.t.Helper()
	args := connectArgs(h)
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // it ends with its stdin
	cmd.Env = environ(h.t.TempDir(), "HEARTH_ACP_KEY="+key)
	stdin, err := cmd.StdinPipe()
	require.NoError(h.t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(h.t, err)
	require.NoError(h.t, cmd.Start())
	g := &gopher{peer: newPeer(h.t), open: map[string]chan acp.RequestPermissionResponse{}}
	conn := acp.NewClientSideConnection(g, stdin, stdout)
	ctx, cancel := context.WithCancel(h.t.Context())
	var once sync.Once
	g.hangUp = func() {
		once.Do(func() {
			cancel()
			_ = stdin.Close()
			<-conn.Done()
			_ = cmd.Wait()
		})
	}
	h.t.Cleanup(g.hangUp)
	g.notify = func(_ string, params any) {
		_ = conn.Cancel(ctx, as[acp.CancelNotification](params)) // the one notification that a client has
	}
	g.answer = func(question, option string) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.open[question] <- acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeSelected(acp.PermissionOptionId(option))}
	}
	g.request = func(call int, method string, params any) {
		go func() {
			result, err := g.typed(ctx, conn, method, params)
			e := event{Answered: call}
			if err != nil {
				e.Error = &struct {
					Code    int    `json:"code"`
					Message string `json:"message"`
				}{Message: err.Error()}
			} else {
				e.Result, _ = json.Marshal(result)
			}
			g.happened(e)
		}()
	}
	return g.peer
}

// as reads params as that SDK's type.
func as[T any](params any) T {
	var out T
	b, err := json.Marshal(params)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		panic(err)
	}
	return out
}

func (g *gopher) typed(ctx context.Context, conn *acp.ClientSideConnection, method string, params any) (any, error) {
	switch method {
	case "initialize":
		return conn.Initialize(ctx, as[acp.InitializeRequest](params))
	case "session/new":
		return conn.NewSession(ctx, as[acp.NewSessionRequest](params))
	case "session/load":
		return conn.LoadSession(ctx, as[acp.LoadSessionRequest](params))
	case "session/list":
		return conn.ListSessions(ctx, as[acp.ListSessionsRequest](params))
	default:
		return conn.Prompt(ctx, as[acp.PromptRequest](params))
	}
}

// SessionUpdate implements acp.Client.
func (g *gopher) SessionUpdate(_ context.Context, n acp.SessionNotification) error {
	b, err := json.Marshal(n)
	g.happened(event{Update: b})
	return err
}

// RequestPermission implements acp.Client.
func (g *gopher) RequestPermission(ctx context.Context, r acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	params, err := json.Marshal(r)
	if err != nil {
		return acp.RequestPermissionResponse{}, err
	}
	answer := make(chan acp.RequestPermissionResponse, 1)
	g.mu.Lock()
	question := strconv.Itoa(len(g.open) + 1)
	g.open[question] = answer
	g.mu.Unlock()
	g.happened(event{Question: question, Params: params})
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		g.happened(event{Settled: question})
		return acp.RequestPermissionResponse{}, ctx.Err()
	}
}

var errNone = acp.NewMethodNotFound("this client has no files and no terminals")

// The rest of acp.Client is what this client says that it cannot do.

func (g *gopher) ReadTextFile(context.Context, acp.ReadTextFileRequest) (r acp.ReadTextFileResponse, err error) {
	return r, errNone
}
func (g *gopher) WriteTextFile(context.Context, acp.WriteTextFileRequest) (r acp.WriteTextFileResponse, err error) {
	return r, errNone
}
func (g *gopher) CreateTerminal(context.Context, acp.CreateTerminalRequest) (r acp.CreateTerminalResponse, err error) {
	return r, errNone
}
func (g *gopher) KillTerminal(context.Context, acp.KillTerminalRequest) (r acp.KillTerminalResponse, err error) {
	return r, errNone
}
func (g *gopher) TerminalOutput(context.Context, acp.TerminalOutputRequest) (r acp.TerminalOutputResponse, err error) {
	return r, errNone
}
func (g *gopher) ReleaseTerminal(context.Context, acp.ReleaseTerminalRequest) (r acp.ReleaseTerminalResponse, err error) {
	return r, errNone
}
func (g *gopher) WaitForTerminalExit(context.Context, acp.WaitForTerminalExitRequest) (r acp.WaitForTerminalExitResponse, err error) {
	return r, errNone
}
