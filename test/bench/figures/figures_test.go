package figures

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/test/apiserver"
)

func TestThreeDigitsAreKept(t *testing.T) {
	for x, want := range map[float64]float64{0: 0, 0.0123456: 0.0123, 0.9996: 1, 1.2345: 1.23, 12.345: 12.3, 123.45: 123, 99.96: 100, 12345.6: 12346, -1.2345: -1.23} {
		assert.InDelta(t, want, Round(x), 1e-12, x)
	}
	assert.True(t, math.IsNaN(Round(math.NaN())))
}

func TestAPercentileIsAValueThatWasMeasured(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3, 10, 9, 8, 7, 6}
	for p, want := range map[float64]float64{0.1: 1, 10: 1, 50: 5, 51: 6, 90: 9, 95: 10, 99: 10, 100: 10} {
		assert.InDelta(t, want, Percentile(values, p), 0, p)
	}
	assert.Equal(t, []float64{5, 1, 4, 2, 3, 10, 9, 8, 7, 6}, values, "the caller's order stays")
	assert.InDelta(t, 7, Percentile([]float64{7}, 99), 0)
	assert.True(t, math.IsNaN(Percentile(nil, 50)))
}

func TestAMedianIsTheMiddle(t *testing.T) {
	assert.InDelta(t, 2, Median([]float64{9, 1, 2}), 0)
	assert.InDelta(t, 2.5, Median([]float64{9, 1, 2, 3}), 0)
	assert.True(t, math.IsNaN(Median(nil)))
	assert.Equal(t, []float64{1.5, 2000}, Millis([]time.Duration{1500 * time.Microsecond, 2 * time.Second}))
}

func TestAnAimIsMetOrNot(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name   string
		figure Figure
		met    *bool
	}{
		{"none", New("P", "f", "ms", 1), nil},
		{"at the most", New("P", "f", "ms", 15).Aims("ours ≤ 15"), &yes},
		{"above the most", New("P", "f", "ms", 15.1).Aims("ours ≤ 15"), &no},
		{"at the least", New("P", "f", "runs/s", 80).Against(100).Aims("ratio ≥ 0.8"), &yes},
		{"below the least", New("P", "f", "runs/s", 79).Against(100).Aims("ratio ≥ 0.8"), &no},
		{"said before the limit", New("P", "f", "s", 10.6).Aims("ratio ≤ 1.05").Against(10), &no},
		{"no ratio", New("P", "f", "s", 1).Aims("ratio ≤ 1.05"), nil},
		{"nothing to compare with", New("P", "f", "s", 1).Against(0).Aims("ratio ≤ 1.05"), nil},
		{"no longer anything to compare with", New("P", "f", "s", 1).Against(10).Aims("ratio ≤ 1.05").Against(0), nil},
	} {
		assert.Equal(t, c.met, c.figure.Met, c.name)
	}
}

func TestAnAimThatCannotBeReadIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"": "expected", "ours": "expected", "theirs ≤ 1": "expected", "ours < 1": "expected", "ours ≤ x": "a number", "ours ≤ NaN": "a number", "ours ≤ 1 ms": "expected",
	} {
		_, err := ParseAim(text)
		assert.ErrorContains(t, err, want, text)
	}
	assert.Panics(t, func() { New("P", "f", "ms", 1).Aims("fast") })
}

func FuzzParseAim(f *testing.F) {
	f.Add("ours ≤ 15")
	f.Add("ratio ≥ 0.8")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAim(text)
		if err != nil {
			return
		}
		again, err := ParseAim(a.String())
		require.NoError(t, err)
		assert.Equal(t, a, again)
	})
}

func example() Result {
	return Result{Machine: "Two cores.", Figures: []Figure{
		New("P1", "p50", "ms", 12.34).Against(20).Aims("ours ≤ 15").Of([]float64{12.34, 11, 14}).Costs(map[string]float64{"etcd": 1.23456, "apiserver": 4}),
		New("P2", "burst", "runs/s", 50).Against(100).Aims("ratio ≥ 0.8"),
	}}
}

func TestATableIsMarkdownThatReadsWell(t *testing.T) {
	assert.Equal(t, `Two cores.

| id | figure | ours      | limit      | ratio | aim         | met    | rounds   | CPU ms a run           |
| -- | ------ | --------- | ---------- | ----- | ----------- | ------ | -------- | ---------------------- |
| P1 | p50    | 12.3 ms   | 20 ms      | 0.615 | ≤ 15 ms     | yes    | 11 to 14 | apiserver 4, etcd 1.23 |
| P2 | burst  | 50 runs/s | 100 runs/s | 0.5   | ratio ≥ 0.8 | **no** |          |                        |
`, Table(example()))
	assert.Equal(t, "\n\n| id | figure | ours |\n| -- | ------ | ---- |\n| P  | f      | 1 ms |\n", Table(Result{Figures: []Figure{New("P", "f", "ms", 1)}}), "columns that nothing is in are left out")
}

func TestWhatIsKeptIsReadAgain(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, ResultsDir), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(PageFile)), 0o700))
	page := filepath.Join(root, PageFile)
	require.NoError(t, os.WriteFile(page, []byte("before\n"+begin("other.json")+"other\n"+end+begin("x.json")+"old\n"+end+"after\n"), 0o600))
	_, err := Read(root, "x.json")
	require.ErrorIs(t, err, os.ErrNotExist)

	require.NoError(t, Write(root, "x.json", example()))
	got, err := Read(root, "x.json")
	require.NoError(t, err)
	assert.Equal(t, example(), got)
	shown, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Equal(t, "before\n"+begin("other.json")+"other\n"+end+begin("x.json")+Table(example())+end+"after\n", string(shown))

	require.ErrorContains(t, Write(root, "y.json", example()), `"<!-- y.json: generated, do not edit -->"`)
	require.NoError(t, os.WriteFile(filepath.Join(root, ResultsDir, "x.json"), []byte(`{"figure": []}`), 0o600))
	_, err = Read(root, "x.json")
	assert.ErrorContains(t, err, "unknown field")
}

func TestKeysAreSorted(t *testing.T) {
	text, err := encode(Result{Machine: "m", Figures: []Figure{New("P1", "f", "ms", 1).Against(2).Aims("ratio ≤ 1")}})
	require.NoError(t, err)
	assert.Equal(t, "{\n  \"figures\": [\n    {\n      \"aim\": \"ratio ≤ 1\",\n      \"figure\": \"f\",\n      \"id\": \"P1\",\n      \"limit\": 2,\n      \"met\": true,\n      \"ours\": 1,\n      \"ratio\": 0.5,\n      \"unit\": \"ms\"\n    }\n  ],\n  \"machine\": \"m\"\n}\n", string(text))
}

func TestFiguresThatWereNotMeasuredAnewStay(t *testing.T) {
	figure := func(id, what string, ours float64) Figure { return New(id, what, "ms", ours) }
	older := Result{Machine: "m", Figures: []Figure{figure("P1", "a", 1), figure("P1", "b", 1), figure("P2", "a", 1), figure("P3", "a", 1)}}
	newer := Result{Machine: "m", Figures: []Figure{figure("P9", "a", 2), figure("P3", "a", 2), figure("P1", "c", 2)}}
	assert.Equal(t, Result{Machine: "m", Figures: []Figure{figure("P1", "c", 2), figure("P2", "a", 1), figure("P3", "a", 2), figure("P9", "a", 2)}}, Merge(older, newer))
	assert.Equal(t, newer, Merge(Result{}, newer))
	older.Machine = "another"
	assert.Equal(t, newer, Merge(older, newer), "what another machine did does not pass for this one's")
}

// The page shows what is kept, whatever that is: nobody types a figure, and nobody forgets one.
func TestThePageShowsTheResultsThatAreKept(t *testing.T) {
	root, err := apiserver.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, PageFile))
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(root, ResultsDir, "*.json"))
	require.NoError(t, err)
	for _, file := range files {
		name := filepath.Base(file)
		r, err := Read(root, name)
		require.NoError(t, err)
		filled, err := Fill(string(text), name, Table(r))
		require.NoError(t, err, "%s has no place on the page", name)
		assert.Equal(t, filled, string(text), "the table of %s on the page is another: run the benchmark, or give the page the table of the JSON", name)
		kept, err := os.ReadFile(file)
		require.NoError(t, err)
		again, err := encode(r)
		require.NoError(t, err)
		assert.Equal(t, string(again), string(kept), "%s was written by hand", name)
		for _, f := range r.Figures {
			assert.Equal(t, f.judged().Met, f.Met, "%s: %s %s", name, f.ID, f.Figure)
		}
	}
}

func TestAnAimInJSONIsText(t *testing.T) {
	var f Figure
	require.NoError(t, json.Unmarshal([]byte(`{"aim": "ours ≤ 15"}`), &f))
	assert.Equal(t, Aim{Of: OfOurs, Value: 15}, *f.Aim)
	assert.Error(t, json.Unmarshal([]byte(`{"aim": 15}`), &f))
	assert.ErrorContains(t, json.Unmarshal([]byte(`{"aim": "fast"}`), &f), `aim "fast"`)
}

func TestAMachineIsSaidInWords(t *testing.T) {
	const cpu, memory = "processor\t: 0\nmodel name\t: Fast  CPU @ 3GHz\nmodel name\t: Other\n", "MemTotal:       25165824 kB\nMemFree: 1 kB\n"
	const end = "; what is measured, its load and the API server share them."
	assert.Equal(t, "2 cores (amd64, Fast CPU @ 3GHz), 24 GiB of memory, data on a rotating disk"+end, machine(2, "amd64", cpu, memory, "rotating"))
	assert.Equal(t, "2 cores (amd64), 24 GiB of memory, data on a virtual disk"+end, machine(2, "amd64", "", memory, "virtual"))
	assert.Equal(t, "4 cores (arm64)"+end, machine(4, "arm64", "", "", ""))
}
