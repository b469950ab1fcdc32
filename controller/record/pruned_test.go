package record_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/hearthdev/hearth/controller/record"
)

// R12: what a CRD does not know is what was sent and did not come back; how it came back does not matter.
func TestPrunedNamesTheFieldsThatAreGone(t *testing.T) {
	for name, c := range map[string]struct {
		sent, came string
		want       []string
	}{
		"nothing":                      {sent: `{"phase":"Running"}`, came: `{"phase":"Running"}`},
		"a field":                      {sent: `{"phase":"Running","outcome":"x"}`, came: `{"phase":"Running"}`, want: []string{"status.outcome"}},
		"a number that is zero":        {sent: `{"recasts":0}`, came: `{}`, want: []string{"status.recasts"}},
		"a field of a field":           {sent: `{"delivery":{"attempt":1,"session":"s"}}`, came: `{"delivery":{"attempt":1}}`, want: []string{"status.delivery.session"}},
		"all of a field":               {sent: `{"usage":{"inputTokens":1,"cost":{"amount":"1"}}}`, came: `{"phase":"Running"}`, want: []string{"status.usage"}},
		"several, in order":            {sent: `{"b":1,"a":2,"c":{"d":true}}`, came: `{"c":{}}`, want: []string{"status.a", "status.b", "status.c.d"}},
		"a field of an item":           {sent: `{"conditions":[{"type":"A","more":1},{"type":"B","more":2}]}`, came: `{"conditions":[{"type":"A"},{"type":"B"}]}`, want: []string{"status.conditions[].more"}},
		"a list":                       {sent: `{"conditions":[{"type":"A"}]}`, came: `{}`, want: []string{"status.conditions"}},
		"the status":                   {sent: `{"phase":"Running"}`, came: `null`, want: []string{"status"}},
		"what says nothing":            {sent: `{"a":null,"b":{},"c":[]}`, came: `{}`},
		"a default is no loss":         {sent: `{"a":1}`, came: `{"a":1,"b":2}`},
		"a time cut to its precision":  {sent: `{"at":"2026-11-29T12:00:00.123456789Z"}`, came: `{"at":"2026-11-29T12:00:00.123456Z"}`},
		"a text written another way":   {sent: `{"at":"2026-11-29T12:00:00+00:00","n":1.0}`, came: `{"at":"2026-11-29T12:00:00Z","n":1}`},
		"no status on either side":     {sent: `null`, came: `null`},
		"a value of another type":      {sent: `{"a":{"b":1}}`, came: `{"a":"text"}`, want: []string{"status.a"}},
		"false is a value":             {sent: `{"a":false}`, came: `{}`, want: []string{"status.a"}},
		"an empty text is sent or not": {sent: `{"a":""}`, came: `{"a":""}`},
	} {
		t.Run(name, func(t *testing.T) {
			var sent, came any
			require.NoError(t, utiljson.Unmarshal([]byte(c.sent), &sent))
			require.NoError(t, utiljson.Unmarshal([]byte(c.came), &came))
			assert.Equal(t, c.want, record.Pruned("status", sent, came))
		})
	}
}
