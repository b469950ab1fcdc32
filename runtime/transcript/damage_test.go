package transcript

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const onlyPart = "00000001.0001.jsonl"

// What a boot left, and what the next makes of it: a torn end is dropped and noted, other damage is a Note, nothing is an error.
func TestWhatAnEarlierBootLeftIsTakenUp(t *testing.T) {
	line := func(n int) string {
		return string(AppendEntry(nil, Entry{Seq: uint64(n), Time: noon, Direction: FromAgent, Frame: fmt.Appendf(nil, `{"n":%d}`, n)})) //nolint:gosec // small
	}
	for name, row := range map[string]struct {
		files map[string]string
		want  []string // nil: there is no transcript
	}{
		"whole":             {map[string]string{onlyPart: goodHeader + line(1) + line(2)}, []string{`1 {"n":1}`, `2 {"n":2}`}},
		"torn":              {map[string]string{onlyPart: goodHeader + line(1) + line(2)[:30]}, []string{`1 {"n":1}`, `2 {"note":"torn","entries":1}`}},
		"torn by a newline": {map[string]string{onlyPart: goodHeader + line(1) + strings.TrimSpace(line(2))}, []string{`1 {"n":1}`, `2 {"note":"torn","entries":1}`}},
		"zeros at the end":  {map[string]string{onlyPart: goodHeader + line(1) + strings.Repeat("\x00", 5000)}, []string{`1 {"n":1}`, `2 {"note":"torn","entries":1}`}},
		"garbage at the end": {map[string]string{onlyPart: goodHeader + line(1) + "garbage\n" + strings.Repeat("x", 2*tailBytes) + "\n"},
			[]string{`1 {"n":1}`, `2 {"note":"torn","entries":1}`}},
		"garbage in between": {map[string]string{onlyPart: goodHeader + line(1) + "garbage\n" + line(4)}, []string{`1 {"n":1}`, `3 {"note":"lost","entries":2}`, `4 {"n":4}`}},
		"half an entry in between": {map[string]string{onlyPart: goodHeader + line(1) + line(2)[:30] + "\n" + line(3)},
			[]string{`1 {"n":1}`, `2 {"note":"lost","entries":1}`, `3 {"n":3}`}},
		"going back":                {map[string]string{onlyPart: goodHeader + line(1) + line(3) + line(2) + line(4)}, []string{`1 {"n":1}`, `2 {"note":"lost","entries":1}`, `3 {"n":3}`, `4 {"n":4}`}},
		"only a header":             {map[string]string{onlyPart: goodHeader}, []string{}},
		"a header and half a line":  {map[string]string{onlyPart: goodHeader + line(1)[:9]}, []string{`1 {"note":"torn","entries":1}`}},
		"half a header":             {map[string]string{onlyPart: goodHeader[:9]}, nil},
		"empty":                     {map[string]string{onlyPart: ""}, nil},
		"another's file":            {map[string]string{"notes.txt": "x", "1.1.jsonl": "x", "00000001.1.jsonl": "x"}, nil},
		"a new part without header": {map[string]string{onlyPart: goodHeader + line(1), "00000001.0002.jsonl": ""}, []string{`1 {"n":1}`}},
		"a part is gone": {map[string]string{onlyPart: goodHeader + line(1), "00000001.0003.jsonl": strings.Replace(goodHeader, `"first":1`, `"first":5`, 1) + line(5)},
			[]string{`1 {"n":1}`, `4 {"note":"lost","entries":3}`, `5 {"n":5}`}},
		"the first part is gone": {map[string]string{"00000001.0003.jsonl": strings.Replace(goodHeader, `"first":1`, `"first":5`, 1) + line(5)},
			[]string{`4 {"note":"dropped","entries":4}`, `5 {"n":5}`}},
		"a part out of order": {map[string]string{onlyPart: goodHeader + line(1), "00000001.0002.jsonl": goodHeader + line(1) + line(2)}, []string{`1 {"n":1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t.TempDir())
			for file, content := range row.files {
				write(t, filepath.Join(cfg.Dir, file), content)
			}
			for range 2 { // a second start finds what the first made of it
				s, err := Open(cfg)
				require.NoError(t, err)
				books := s.List()
				if row.want == nil {
					assert.Empty(t, books)
				} else if assert.Len(t, books, 1) {
					got := told(read(t, books[0], 1, 99))
					assert.Equal(t, row.want, got)
				}
				require.NoError(t, s.Close())
			}
			if row.files["notes.txt"] != "" {
				assert.Len(t, files(t, cfg.Dir), 3, "not a store's to remove")
			}
		})
	}
}

// A part that somebody removes or makes unreadable under a living store is a Note, too.
func TestAFileThatVanishesIsANote(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.PartBytes = 1000
	b := begin(t, open(t, cfg))
	for i := range 6 {
		b.Append(FromAgent, frame(i+1, 300))
	}
	require.NoError(t, os.Remove(filepath.Join(cfg.Dir, "00000001.0002.jsonl")))
	got := told(read(t, b, 2, 5))
	assert.Equal(t, []string{"2 " + string(frame(2, 300)), `4 {"note":"lost","entries":2}`, "5 " + string(frame(5, 300))}, got)
	assert.NoError(t, b.Sync())
}

func TestADirectoryThatCannotBeMadeIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "")
	_, err := Open(config(path))
	assert.ErrorContains(t, err, "transcripts: ")
}
