package router

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func FuzzDispatch(f *testing.F) {
	for _, s := range []string{update("s1", "x"), "garbage", "[]", "{}", `{"id":1,"result":{}}`, `{"id":1,"error":7}`, `{"id":"a","method":"session/request_permission","params":{"sessionId":7}}`, "\x00\n\xff\n", `{"method":"a","params":{"sessionId":"s1"}}` + "\n" + `{"id":1,"method":"b"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		c := Open(Config{In: io.NopCloser(bytes.NewReader(stream)), Out: discard{}, Cause: func() error { return errGone }, Now: time.Now, MaxLine: 64})
		<-c.Done()
		assert.ErrorIs(t, c.Err(), errGone)
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }

// FuzzLines compares with the obvious way to do it.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), 2)
	f.Add(bytes.Repeat([]byte("x"), 100<<10), 70000)
	f.Add([]byte(nil), 29)
	f.Fuzz(func(t *testing.T, stream []byte, limit int) {
		if limit < 0 {
			t.Skip()
		}
		want, got := []string{}, []string{}
		for _, l := range bytes.Split(stream, []byte("\n")) {
			if len(l) > limit {
				l = l[:min(len(l), beginningBytes)]
			}
			want = append(want, string(l))
		}
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		in := newLines(bytes.NewReader(stream), limit)
		for {
			l, err := in.next()
			if err != nil && !errors.Is(err, ErrLineTooLong) {
				break
			}
			got = append(got, string(l))
		}
		assert.Equal(t, want, got)
	})
}
