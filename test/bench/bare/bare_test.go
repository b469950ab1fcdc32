package bare

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

func serving(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	c, err := New(&rest.Config{Host: s.URL})
	require.NoError(t, err)
	return c
}

func TestARefusalIsAnErrorWithItsCode(t *testing.T) {
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPut {
			http.Error(w, "the object has been modified", http.StatusConflict)
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s", r.Header.Get("Content-Type"), body)
	})
	got, err := c.Do(t.Context(), http.MethodPost, "/x", []byte("{}"))
	require.NoError(t, err)
	assert.Equal(t, "application/json {}", string(got))
	_, err = c.Do(t.Context(), http.MethodPut, "/x", []byte("{}"))
	var refused *Refused
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, http.StatusConflict, refused.Code)
	assert.ErrorContains(t, err, "PUT /x: 409: the object has been modified")
}

func TestAVersionIsThatOfTheCollection(t *testing.T) {
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "limit=1", r.URL.RawQuery)
		_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"42"},"items":[]}`)
	})
	version, err := c.Version(t.Context(), "/runs")
	require.NoError(t, err)
	assert.Equal(t, "42", version)
}

// The API server ends a watch when it likes: the next one goes on from what was seen last, and misses nothing.
func TestAWatchThatEndsIsGoneOnWith(t *testing.T) {
	var from []string
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		version := r.URL.Query().Get("resourceVersion")
		from = append(from, version)
		assert.Equal(t, "b", r.URL.Query().Get("a"))
		if version == "1" {
			_, _ = io.WriteString(w, "two\nthree\n")
			return
		}
		_, _ = io.WriteString(w, "four\nfive\n")
	})
	var lines []string
	err := c.Watch(t.Context(), "/runs", "1", "a=b", func(line []byte) (Seen, error) {
		lines = append(lines, string(line))
		return Seen{Version: string(line), Enough: string(line) == "four"}, nil
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"two", "three", "four"}, lines)
	assert.Equal(t, []string{"1", "three"}, from)

	sees := errors.New("no such line")
	err = c.Watch(t.Context(), "/runs", "1", "a=b", func([]byte) (Seen, error) { return Seen{}, sees })
	assert.ErrorIs(t, err, sees)
}
