package peers

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var write = flag.Bool("update", false, "write docs/compatibility.md; rows that were not run stay as they are")

const page = "../../docs/compatibility.md"

// row is a line of the page.
type row struct{ client, agent string }

// results are what was seen, by row and column; a row has the agent's version, too.
type results struct {
	mu    sync.Mutex
	cells map[row][]string
	names map[string]string // an agent's name with its version
}

func (r *results) add(at row, version string, cells []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if version != "" {
		r.names[at.agent] = version
	}
	r.cells[at] = cells
}

// R50–R54: each client with each agent through the real harness. docs/compatibility.md says what this sees.
func TestCompatibility(t *testing.T) {
	seen := &results{cells: map[row][]string{}, names: map[string]string{}}
	t.Run("all", func(t *testing.T) {
		for _, a := range agents {
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				if a.slow && os.Getenv("HEARTH_SLOW") != "1" {
					t.Skip("HEARTH_SLOW is not 1")
				}
				h := startHarness(t, a)
				for _, k := range kinds {
					try(t, &trial{h: h, agent: a, kind: k}, seen)
				}
				tryAcpx(t, h, a, seen)
			})
		}
	})
	if t.Failed() {
		return
	}
	committed, err := os.ReadFile(page)
	require.True(t, err == nil || *write, "%v", err)
	text := seen.page(t, string(committed))
	if *write {
		require.NoError(t, os.WriteFile(page, []byte(text), 0o600))
		return
	}
	assert.Equal(t, text, string(committed), "the page is not what the tests see: make compatibility")
}

// try is one row: all its cases, the first that fails ends it.
func try(t *testing.T, x *trial, seen *results) {
	var cells []string
	for _, c := range cases {
		err := c.run(x)
		require.NoError(t, err, "%s: %s: %s", x.kind.name, c.name, x.h.log)
		cells = append(cells, "yes")
	}
	x.first.hangUp()
	x.second.hangUp()
	seen.add(row{x.kind.name, x.agent.name}, x.info.AgentInfo.Version, cells)
}

const untried = "not tried"

const preamble = `# Compatibility

Which clients work with which agents through a harness. The table is what ` + "`test/peers`" + ` saw: each row is that client, unchanged, attached to a real
` + "`harness serve`" + ` that keeps that agent. ` + "`make test`" + ` fails when the page and what it sees differ; ` + "`make compatibility`" + ` writes it.
Rows of opencode are run by ` + "`make slow`" + `.

| column | means |
| --- | --- |
| initialize | the client connects, presents the steer key and agrees on protocol version 1 |
| new | it opens a session |
| prompt | it prompts and is shown the answer as it comes |
| tool | the agent uses a tool, which the client allows where it is asked, and is shown how that ends |
| permission | the client refuses, and the turn goes on to its end |
| cancel | it cancels a running turn, which then ends as cancelled |
| load | another connection loads the session and is shown all that was said |
| two clients | both prompt in one session, and each is shown what comes of the other's prompt, live |

`

// page is the whole page: rows that were run as they came out, others as they were.
func (r *results) page(t *testing.T, before string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(preamble)
	names := make([]string, 0, len(cases))
	for _, c := range cases {
		names = append(names, c.name)
	}
	b.WriteString("| client | agent | " + strings.Join(names, " | ") + " |\n|" + strings.Repeat(" --- |", len(names)+2) + "\n")
	clients := []string{}
	for _, k := range kinds {
		clients = append(clients, k.name)
	}
	for _, a := range agents {
		for _, c := range append(slices.Clone(clients), acpxName) {
			cells := r.cells[row{c, a.name}]
			line := "| " + c + " | " + a.name + " | "
			switch {
			case cells != nil:
			case strings.Contains(before, "\n"+line):
				_, rest, _ := strings.Cut(before, "\n"+line)
				rest, _, _ = strings.Cut(rest, " |\n")
				cells = strings.Split(rest, " | ")
			default:
				cells = slices.Repeat([]string{untried}, len(cases))
			}
			b.WriteString(line + strings.Join(cells, " | ") + " |\n")
		}
	}
	b.WriteString("\nVersions: " + r.versions(before) + ".\n")
	b.WriteString(`
What was not tried: editors (Zed, JetBrains, Neovim plug-ins), the Rust and Python SDKs, codex-acp and other agents, browsers; and of acpx what its table says, because
` + "`acpx exec`" + ` is one prompt in a session of its own.
`)
	return b.String()
}

// versions are those of what npm and Go pin, and what agents said of themselves.
func (r *results) versions(before string) string {
	_, old, _ := strings.Cut(before, "\nVersions: ")
	old, _, _ = strings.Cut(old, ".\n")
	out := slices.Clone(pinnedVersions())
	for _, a := range agents {
		version := r.names[a.name]
		for _, said := range strings.Split(old, ", ") {
			if was, found := strings.CutPrefix(said, a.name+" "); found && version == "" {
				version = was
			}
		}
		if version == "" {
			version = untried
		}
		out = append(out, fmt.Sprintf("%s %s", a.name, version))
	}
	return strings.Join(out, ", ")
}
