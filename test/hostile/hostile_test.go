package hostile

import (
	"slices"
	"syscall"
	"testing"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/attach"
)

const (
	quit = syscall.SIGQUIT // the Go runtime answers it with all stacks, and ends
	// maxGoroutines is what a harness with one agent needs when nobody is connected, and some of the runtime's own; and one for each
	// client of streamable HTTP with the view key, which stays for a minute without a stream.
	maxGoroutines = 40 + attach.MaxClients*3/4
)

// R31, R57, row 40: one process endures all of it, one after the other. During each attack every probe passes and work is
// delivered; afterwards its connections, files and goroutines are those of before. With -v it prints what each attack cost.
func TestTheHarnessSurvivesHostileClients(t *testing.T) {
	if raced {
		t.Skip("the harness that is attacked is a program that is built without the race detector")
	}
	moreFiles(t)
	var rows []row
	defer func() { table(t, rows) }()
	for _, scheme := range []wire.Scheme{wire.SchemeHTTPS, wire.SchemeHTTP} {
		t.Run(string(scheme), func(t *testing.T) {
			p := start(t, string(scheme))
			attacks := slices.Concat(slow, greedy)
			if scheme == wire.SchemeHTTPS {
				attacks = slices.Concat(attacks, handshakes, people)
				t.Run("who speaks something else", p.strangers)
			}
			for _, k := range attacks {
				t.Run(k.name, func(t *testing.T) { rows = append(rows, p.suffer(t, k)) })
			}
			t.Run("malformed requests", p.shapes)
			t.Run("bodies that unpack to much", p.bombs)
			t.Run("afterwards", p.dump)
		})
	}
}
