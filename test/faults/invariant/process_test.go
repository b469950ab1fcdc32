package invariant

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// I6: each figure by itself, and what was not measured is not compared.
func TestGrowthIsFound(t *testing.T) {
	before := Sample{Goroutines: 10, Files: 20, Bytes: 30}
	allow := Sample{Goroutines: 1, Files: 2, Bytes: 3}
	for name, tt := range map[string]struct {
		after Sample
		says  []string
	}{
		"as allowed":   {after: Sample{11, 22, 33}},
		"less":         {after: Sample{1, 2, 3}},
		"goroutines":   {after: Sample{12, 22, 33}, says: []string{"goroutines grew from 10 to 12"}},
		"files":        {after: Sample{11, 23, 33}, says: []string{"open files grew from 20 to 23"}},
		"memory":       {after: Sample{11, 22, 34}, says: []string{"memory grew from 30 to 34"}},
		"not measured": {after: Sample{-1, -1, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			found := Flat(Process{Name: "p", Before: before, After: tt.after, Allow: allow})
			require.Len(t, found, len(tt.says))
			for i, v := range found {
				assert.Contains(t, v.String(), "I6: p: "+tt.says[i])
			}
		})
	}
}

func TestAProcessIsSampled(t *testing.T) {
	before, err := OfProcess(os.Getpid())
	require.NoError(t, err)
	assert.Greater(t, before.Bytes, int64(1<<20))
	for range 5 {
		f, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer func() { _ = f.Close() }()
	}
	after, err := OfProcess(os.Getpid())
	require.NoError(t, err)
	assert.GreaterOrEqual(t, after.Files, before.Files+5)
	_, err = OfProcess(-1)
	assert.Error(t, err)
}

func TestMetricsAreRead(t *testing.T) {
	s, err := OfMetrics(strings.NewReader("# HELP go_goroutines n\ngo_goroutines 42\nprocess_open_fds 17\ngo_memstats_heap_inuse_bytes 3.5e+06\nx{a=\"b c\"} 1\n"))
	require.NoError(t, err)
	assert.Equal(t, Sample{Goroutines: 42, Files: 17, Bytes: 3_500_000}, s)
	s, err = OfMetrics(strings.NewReader("nothing"))
	require.NoError(t, err)
	assert.Equal(t, Sample{-1, -1, -1}, s)
}

// I8: whatever form it is written in, whole or cut.
func TestASecretIsFoundInAnyForm(t *testing.T) {
	value := "the \"root\" secret ÿ þ?>~ of a Pod, and much more of it, so that it is longer than what is looked for"
	quoted, err := json.Marshal(value)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"as it is":       "x" + value,
		"cut":            value[:50],
		"in JSON":        string(quoted),
		"in hexadecimal": "a" + hex.EncodeToString([]byte(value)),
		"in base64":      base64.StdEncoding.EncodeToString([]byte(value)),
		"in base64, 1":   base64.StdEncoding.EncodeToString([]byte("!" + value)),
		"in base64, 2":   base64.StdEncoding.EncodeToString([]byte("!!" + value)),
		"in base64, 3":   base64.URLEncoding.EncodeToString([]byte("user" + value)),
	} {
		t.Run(name, func(t *testing.T) {
			texts := []Text{{"its own Pod", text}, {"the log", "before " + text + " after"}, {"metrics", "nothing"}}
			found := Silent(texts, []Secret{{Name: "token", Value: value, But: func(t Text) bool { return t.Where == "its own Pod" }}})
			require.Len(t, found, 1)
			assert.Contains(t, found[0].Text, "token is in the log")
			assert.NotContains(t, found[0].Text, "root")
		})
	}
}

func TestWhatCannotBeLookedForIsNotSilent(t *testing.T) {
	assert.Len(t, Silent(nil, []Secret{{Name: "short", Value: "abc"}}), 1)
}
