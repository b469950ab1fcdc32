package llm

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestATallyCountsWhatWasPosted(t *testing.T) {
	_, url := start(t, Options{})
	count := func(name string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/tallies/"+name, nil)
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(body)
	}
	assert.Equal(t, "0", count("a"))
	for range 2 {
		assert.Equal(t, http.StatusNoContent, post(t.Context(), t, url+"/tallies/a", "").StatusCode)
	}
	assert.Equal(t, "2", count("a"))
	assert.Equal(t, "0", count("b"))
}

func TestTalliesAreBounded(t *testing.T) {
	s, url := start(t, Options{})
	s.tallies.byName = map[string]int{}
	for i := range maxTallies {
		s.tallies.byName[fmt.Sprint(i)] = 1
	}
	assert.Equal(t, http.StatusInsufficientStorage, post(t.Context(), t, url+"/tallies/new", "").StatusCode)
	assert.Equal(t, http.StatusNoContent, post(t.Context(), t, url+"/tallies/0", "").StatusCode)
}
