package kontext

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const goodBody = `{"apiVersion":"kontext.dev/delivery/v1alpha1","run":{"name":"review-1","namespace":"team","uid":"run-uid"},` +
	`"target":{"name":"run-reviewer-1","uid":"pod-uid"},"goal":"Review the change."}`

// SPEC.md, Strictness: the same for the older contract. Each case is the good body with one thing wrong.
func TestDecodeIsStrict(t *testing.T) {
	for name, c := range map[string]struct {
		old, with string
		code      wire.Code
		field     string
	}{
		"another version":          {`kontext.dev/delivery/v1alpha1`, `kontext.dev/delivery/v2`, wire.CodeUnsupportedVersion, ""},
		"our own version":          {`kontext.dev/delivery/v1alpha1`, wire.APIVersion, wire.CodeUnsupportedVersion, ""},
		"no version":               {`"apiVersion":"kontext.dev/delivery/v1alpha1",`, ``, wire.CodeMalformed, "/apiVersion"},
		"empty version":            {`"apiVersion":"kontext.dev/delivery/v1alpha1"`, `"apiVersion":""`, wire.CodeMalformed, "/apiVersion"},
		"unknown field":            {`"goal"`, `"extra":true,"goal"`, wire.CodeMalformed, "/extra"},
		"a field of our own":       {`"goal"`, `"attempt":1,"goal"`, wire.CodeMalformed, "/attempt"},
		"unknown field of the run": {`"name":"review-1"`, `"name":"review-1","extra":1`, wire.CodeMalformed, "/run/extra"},
		"unknown in the target":    {`"uid":"pod-uid"`, `"uid":"pod-uid","ip":"1"`, wire.CodeMalformed, "/target/ip"},
		"duplicate field":          {`"goal"`, `"goal":"x","goal"`, wire.CodeMalformed, "/goal"},
		"duplicate in the run":     {`"uid":"run-uid"`, `"uid":"run-uid","uid":"run-uid"`, wire.CodeMalformed, "/run/uid"},
		"another case":             {`"goal"`, `"Goal"`, wire.CodeMalformed, "/Goal"},
		"another case, too":        {`"uid":"run-uid"`, `"uid":"run-uid","UID":"x"`, wire.CodeMalformed, "/run/UID"},
		"trailing data":            {`change."}`, `change."} {}`, wire.CodeMalformed, "body"},
		"trailing letter":          {`change."}`, `change."}x`, wire.CodeMalformed, "body"},
		"not closed":               {`change."}`, `change."`, wire.CodeMalformed, "body"},
		"invalid UTF-8":            {`change`, "ch\xffnge", wire.CodeMalformed, "/goal"},
		"half a surrogate":         {`change`, `\ud800`, wire.CodeMalformed, "/goal"},
		"goal of another type":     {`"Review the change."`, `7`, wire.CodeMalformed, "/goal"},
		"null run":                 {`{"name":"review-1","namespace":"team","uid":"run-uid"}`, `null`, wire.CodeMalformed, "/run/name"},
		"no run":                   {`"run":{"name":"review-1","namespace":"team","uid":"run-uid"},`, ``, wire.CodeMalformed, "/run/name"},
		"no target":                {`"target":{"name":"run-reviewer-1","uid":"pod-uid"},`, ``, wire.CodeMalformed, "/target/name"},
		"no goal":                  {`,"goal":"Review the change."`, ``, wire.CodeMalformed, "/goal"},
		"empty goal":               {`Review the change.`, ``, wire.CodeMalformed, "/goal"},
		"empty name":               {`review-1`, ``, wire.CodeMalformed, "/run/name"},
		"empty namespace":          {`"team"`, `""`, wire.CodeMalformed, "/run/namespace"},
		"empty run UID":            {`run-uid`, ``, wire.CodeMalformed, "/run/uid"},
		"empty target name":        {`run-reviewer-1`, ``, wire.CodeMalformed, "/target/name"},
		"empty target UID":         {`pod-uid`, ``, wire.CodeMalformed, "/target/uid"},
		"name too long":            {`review-1`, strings.Repeat("n", wire.MaxNameBytes+1), wire.CodeMalformed, "/run/name"},
		"UID too long":             {`run-uid`, strings.Repeat("u", wire.MaxUIDBytes+1), wire.CodeMalformed, "/run/uid"},
		"NUL in the UID":           {`run-uid`, `run\u0000uid`, wire.CodeMalformed, "/run/uid"},
		"space in the UID":         {`run-uid`, `run uid`, wire.CodeMalformed, "/run/uid"},
		"an array":                 {goodBody, `[` + goodBody + `]`, wire.CodeMalformed, "body"},
		"nothing":                  {goodBody, ``, wire.CodeMalformed, "body"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, goodBody, c.old)
			_, p := Decode([]byte(strings.Replace(goodBody, c.old, c.with, 1)))
			require.NotNil(t, p)
			assert.Equal(t, c.code, p.Code, p.Detail)
			assert.Equal(t, c.field, p.Field, p.Detail)
			assert.NotContains(t, p.Detail, "Review", "a refusal never repeats a goal")
		})
	}
}

func TestDecodeReadsWhatThatControllerSends(t *testing.T) {
	want, p := Decode([]byte(goodBody))
	require.Nil(t, p)
	raw, err := os.ReadFile("testdata/request.json")
	require.NoError(t, err)
	got, p := Decode(raw)
	require.Nil(t, p)
	assert.Equal(t, want, got)
	longest := strings.NewReplacer("review-1", strings.Repeat("n", wire.MaxNameBytes), "run-uid", strings.Repeat("u", wire.MaxUIDBytes)).Replace(goodBody)
	_, p = Decode([]byte(longest))
	assert.Nil(t, p)
}

// What decodes is within the bounds, decodes again to the same, and never makes the signature's parts ambiguous.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(goodBody))
	f.Add([]byte(`{"apiVersion":"kontext.dev/delivery/v1alpha1"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, p := Decode(body)
		if p != nil {
			assert.Equal(t, Request{}, r)
			assert.NotZero(t, p.Status)
			return
		}
		assert.Equal(t, APIVersion, r.APIVersion)
		for _, s := range []string{r.Run.Name, r.Run.Namespace, r.Run.UID, r.Target.Name, r.Target.UID} {
			assert.True(t, s != "" && len(s) <= wire.MaxNameBytes && visible(s), "%q", s)
		}
		assert.NotEmpty(t, r.Goal)
		encoded, err := wire.Encode(r)
		require.NoError(t, err)
		again, p := Decode(encoded)
		require.Nil(t, p)
		assert.Equal(t, r, again)
	})
}
