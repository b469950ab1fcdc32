package llm

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAMarkIsWhenTheFirstRequestWithItCameIn(t *testing.T) {
	_, url := start(t, Options{Second: time.Millisecond})
	marked := make(chan time.Time, 1)
	go func() { // it waits for what has not come yet
		at, err := readMark(t.Context(), url+"/marks/first")
		assert.NoError(t, err)
		marked <- at
	}()
	before := time.Now()
	assert.Equal(t, "word1", ask(t, url, body(false, "slow: 1 ;; mark: first")).Choices[0].Message.Content[:5])
	after := time.Now()
	at := <-marked
	assert.False(t, at.Before(before.Round(0)) || at.After(after), "%s is between %s and %s", at, before, after)

	ask(t, url, body(false, "mark: first"))
	again, err := readMark(t.Context(), url+"/marks/first")
	require.NoError(t, err)
	assert.Equal(t, at, again, "a second request does not move it")
}

func readMark(ctx context.Context, url string) (time.Time, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return time.Time{}, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339Nano, string(text))
}

func TestMarksAreBounded(t *testing.T) {
	var m marks
	for i := range maxMarks {
		require.NoError(t, m.set(fmt.Sprint(i), time.Now()))
	}
	require.Error(t, m.set("one more", time.Now()))
	require.NoError(t, m.set("0", time.Now()))
	_, err := m.wait(t.Context(), "one more")
	require.Error(t, err)
}
