package v1alpha1

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const goodDelivery = `{"apiVersion":"hearth.dev/delivery/v1alpha1","run":{"namespace":"team","name":"review-x","uid":"u1"},"attempt":1,` +
	`"target":{"name":"reviewer-1","uid":"p1"},"journal":"j1","goal":"Review PR 17 for correctness.","session":"fresh","limits":{"activeSeconds":60,"cost":{"amount":"0.5","currency":"USD"}}}`

// R24; SPEC.md, Strictness: what is refused, and that the field at fault is named.
func TestDeliveryIsDecodedStrictly(t *testing.T) {
	edit := func(old, new string) string {
		require.Contains(t, goodDelivery, old)
		return strings.Replace(goodDelivery, old, new, 1)
	}
	for name, c := range map[string]struct{ body, field string }{
		"unknown field":         {edit(`"attempt":1`, `"attempt":1,"extra":1`), "/extra"},
		"unknown nested field":  {edit(`"uid":"u1"`, `"uid":"u1","x":1`), "/run/x"},
		"another case":          {edit(`"goal"`, `"Goal"`), "/Goal"},
		"duplicate":             {edit(`"attempt":1`, `"attempt":1,"attempt":1`), "/attempt"},
		"duplicate nested":      {edit(`"uid":"u1"`, `"uid":"u1","uid":"u1"`), "/run/uid"},
		"trailing data":         {goodDelivery + `{}`, "body"},
		"invalid UTF-8":         {edit("PR 17", "PR \xff"), "/goal"},
		"lone surrogate":        {edit("PR 17", `PR \ud800`), "/goal"},
		"empty body":            {"", "body"},
		"not an object":         {`[]`, "body"},
		"null":                  {`null`, "/apiVersion"},
		"missing version":       {edit(`"apiVersion":"hearth.dev/delivery/v1alpha1",`, ``), "/apiVersion"},
		"missing goal":          {edit(`"goal":"Review PR 17 for correctness.",`, ``), "/goal"},
		"empty goal":            {edit(`Review PR 17 for correctness.`, ``), "/goal"},
		"null uid":              {edit(`"uid":"u1"`, `"uid":null`), "/run/uid"},
		"missing run":           {edit(`"run":{"namespace":"team","name":"review-x","uid":"u1"},`, ``), "/run/namespace"},
		"long name":             {edit(`review-x`, strings.Repeat("n", MaxNameBytes+1)), "/run/name"},
		"missing target":        {edit(`"target":{"name":"reviewer-1","uid":"p1"},`, ``), "/target/name"},
		"missing journal":       {edit(`"journal":"j1",`, ``), "/journal"},
		"attempt zero":          {edit(`"attempt":1`, `"attempt":0`), "/attempt"},
		"attempt negative":      {edit(`"attempt":1`, `"attempt":-1`), "/attempt"},
		"attempt fraction":      {edit(`"attempt":1`, `"attempt":1.5`), "/attempt"},
		"attempt text":          {edit(`"attempt":1`, `"attempt":"1"`), "/attempt"},
		"attempt overflow":      {edit(`"attempt":1`, `"attempt":99999999999999999999`), "/attempt"},
		"session":               {edit(`"fresh"`, `"stale"`), "/session"},
		"limit zero":            {edit(`"activeSeconds":60`, `"activeSeconds":0`), "/limits/activeSeconds"},
		"cost negative":         {edit(`"0.5"`, `"-1"`), "/limits/cost/amount"},
		"cost zero":             {edit(`"0.5"`, `"0.0"`), "/limits/cost/amount"},
		"currency":              {edit(`"USD"`, `"usd"`), "/limits/cost/currency"},
		"attempt with exponent": {edit(`"attempt":1`, `"attempt":1e99`), "/attempt"},
	} {
		t.Run(name, func(t *testing.T) {
			_, p := DecodeDelivery([]byte(c.body))
			require.NotNil(t, p)
			assert.Equal(t, CodeMalformed, p.Code, p.Detail)
			assert.Equal(t, c.field, p.Field, p.Detail)
			assert.Contains(t, p.Detail, "expected")
			assert.NotContains(t, p.Detail, "PR ", "a refusal never repeats the goal")
		})
	}
}

func TestGoodRequestsAreDecoded(t *testing.T) {
	r, p := DecodeDelivery([]byte(goodDelivery))
	require.Nil(t, p)
	assert.Equal(t, RunRef{"team", "review-x", "u1"}, r.Run)
	assert.Equal(t, int64(60), *r.Limits.ActiveSeconds)
	assert.Nil(t, r.Limits.Tokens)
	c, p := DecodeChallenge([]byte(`{"apiVersion":"hearth.dev/delivery/v1alpha1","target":{"name":"a","uid":"b"}}`))
	require.Nil(t, p)
	assert.Equal(t, Target{"a", "b"}, c.Target)
	_, p = DecodeChallenge([]byte(`{"apiVersion":"hearth.dev/delivery/v1alpha1","target":{"name":"a"}}`))
	require.NotNil(t, p)
	assert.Equal(t, "/target/uid", p.Field)
}

// SPEC.md, Versions: another version is told so even when it has fields unknown to us.
func TestAnotherVersionIsToldWhichAreServed(t *testing.T) {
	_, p := DecodeDelivery([]byte(`{"apiVersion":"hearth.dev/delivery/v9","novel":true}`))
	require.NotNil(t, p)
	assert.Equal(t, CodeUnsupportedVersion, p.Code)
	assert.Equal(t, []string{APIVersion}, p.Versions)
}

func TestAnswersAreReadLeniently(t *testing.T) {
	var c ChallengeAnswer
	require.NoError(t, DecodeAnswer([]byte(`{"boot":"b","novel":{"x":1},"capacity":{"concurrency":2}}`), &c))
	assert.Equal(t, "b", c.Boot)
	err := DecodeAnswer([]byte(`{"boot":{"secret":"s3cr3t"}}`), &c)
	require.ErrorContains(t, err, "/boot")
	assert.NotContains(t, err.Error(), "s3cr3t")
}

// SPEC.md, Digest: the published ones.
func TestDigestKnownAnswers(t *testing.T) {
	raw, err := os.ReadFile("../../../challenge/testdata/vectors.json")
	require.NoError(t, err)
	var file struct {
		Digests []struct {
			RunUID       string
			Attempt      int64
			Goal, Digest string
		}
	}
	require.NoError(t, json.Unmarshal(raw, &file))
	require.NotEmpty(t, file.Digests)
	for _, d := range file.Digests {
		assert.Equal(t, d.Digest, Digest(d.RunUID, d.Attempt, d.Goal))
	}
}

// R25: the rule by which kubelet derives a hostname from a Pod name.
func TestHostnameIsWhatKubeletDerives(t *testing.T) {
	for name, want := range map[string]string{
		"reviewer-1":                          "reviewer-1",
		strings.Repeat("a", 63):               strings.Repeat("a", 63),
		strings.Repeat("a", 64):               strings.Repeat("a", 63),
		strings.Repeat("a", 62) + "-b":        strings.Repeat("a", 62),
		strings.Repeat("a", 61) + "-.b":       strings.Repeat("a", 61),
		strings.Repeat("a", 60) + ".-." + "b": strings.Repeat("a", 60),
	} {
		assert.Equal(t, want, Hostname(name))
	}
}

// SPEC.md, Envelope: any bytes end as valid UTF-8 without NUL, cut between runes (fault row 34).
func TestTextIsCleanedAndCutBetweenRunes(t *testing.T) {
	assert.Equal(t, "a\uFFFDb\uFFFDc", CleanText("a\xff\xfeb\x00c"))
	assert.Equal(t, "sü", CutText("süß", 4))
	assert.Equal(t, "s", CutText("süß", 2))
	assert.Empty(t, CutText("ß", 1))
	assert.Equal(t, "süß", CutText("süß", 5))
}

func FuzzDecodeDelivery(f *testing.F) {
	f.Add([]byte(goodDelivery))
	f.Add([]byte(`{"apiVersion":"hearth.dev/delivery/v1alpha1","goal":"x","goal":"y"}`))
	f.Add([]byte("{\"goal\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, p := DecodeDelivery(body)
		if p != nil {
			if p.Code.Status() == 0 || p.Detail == "" || p.Detail != strings.ToValidUTF8(p.Detail, "") {
				t.Fatalf("a refusal needs a known code and a valid detail: %+v", p)
			}
			return
		}
		again, err := Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		if back, p := DecodeDelivery(again); p != nil || Digest(back.Run.UID, back.Attempt, back.Goal) != Digest(r.Run.UID, r.Attempt, r.Goal) {
			t.Fatalf("an accepted request does not survive a round trip: %v", p)
		}
	})
}
